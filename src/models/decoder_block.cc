#include "mainstem/decoder_block.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "mainstem/error.h"

namespace mainstem {
namespace {

/// Rows [begin, begin + rows) of a tensor of the state dict are one weight of the program.
struct StateRow {
  std::string weight;  // "blocks.0.q.weight"
  std::string name;    // "attn.in_proj_weight"
  int64_t begin = 0, rows = 0;
};

bool gated(const DecoderBlockOptions& options) { return options.mlp == DecoderBlockMlp::kSwiGlu; }

void add_norm(std::vector<StateRow>& rows, const DecoderBlockOptions& options,
              const std::string& weight, const std::string& name) {
  rows.push_back({"blocks.0." + weight + ".weight", name + ".weight", 0, options.width});
  if (options.norm == NormKind::kLayer) {
    rows.push_back({"blocks.0." + weight + ".bias", name + ".bias", 0, options.width});
  }
}

/// In torch's order of names.
std::vector<StateRow> state_rows(const DecoderBlockOptions& options) {
  const int64_t d = options.width;
  std::vector<StateRow> rows;
  add_norm(rows, options, "attn_norm", "norm1");
  for (const char* kind : {"weight", "bias"}) {
    int64_t begin = 0;
    for (const char* part : {"q", "k", "v"}) {
      rows.push_back({std::string("blocks.0.") + part + "." + kind,
                      std::string("attn.in_proj_") + kind, begin, d});
      begin += d;
    }
  }
  rows.push_back({"blocks.0.attn_proj.weight", "attn.out_proj.weight", 0, d});
  rows.push_back({"blocks.0.attn_proj.bias", "attn.out_proj.bias", 0, d});
  add_norm(rows, options, "mlp_norm", "norm2");
  if (gated(options)) {
    rows.push_back({"blocks.0.mlp_gate.weight", "mlp.w.weight", 0, 2 * d});
    rows.push_back({"blocks.0.mlp_value.weight", "mlp.w.weight", 2 * d, 2 * d});
    rows.push_back({"blocks.0.mlp_proj.weight", "mlp.w_out.weight", 0, d});
  } else {
    rows.push_back({"blocks.0.mlp_pre.weight", "mlp.0.weight", 0, 4 * d});
    rows.push_back({"blocks.0.mlp_pre.bias", "mlp.0.bias", 0, 4 * d});
    rows.push_back({"blocks.0.mlp_proj.weight", "mlp.2.weight", 0, d});
    rows.push_back({"blocks.0.mlp_proj.bias", "mlp.2.bias", 0, d});
  }
  return rows;
}

/// Indices [begin, begin + rows) of the first dimension.
TensorView part_of(const TensorView& tensor, int64_t begin, int64_t rows) {
  Shape shape = tensor.shape();
  const int64_t bytes_each = tensor.bytes() / shape[0];
  shape[0] = rows;
  return {tensor.dtype(), std::move(shape), tensor.data() + begin * bytes_each};
}

void add_to_list(std::string& list, const std::string& name) {
  list += (list.empty() ? "" : ", ") + name;
}

/// Exactly the block's names, each once.
void check_names(const std::vector<WeightInfo>& wanted, std::span<const NamedTensor> state) {
  std::map<std::string, int> seen;
  for (const NamedTensor& tensor : state) ++seen[tensor.name];
  std::string missing, unknown, twice, expected;
  for (const WeightInfo& info : wanted) {
    add_to_list(expected, info.name);
    const auto found = seen.find(info.name);
    if (found == seen.end()) {
      add_to_list(missing, info.name);
      continue;
    }
    if (found->second > 1) add_to_list(twice, info.name);
    seen.erase(found);
  }
  for (const auto& [name, count] : seen) add_to_list(unknown, name);
  std::string wrong;
  if (!missing.empty()) wrong += "no " + missing;
  if (!unknown.empty()) wrong += (wrong.empty() ? "unknown " : "; unknown ") + unknown;
  if (!twice.empty()) wrong += (wrong.empty() ? "twice " : "; twice ") + twice;
  if (!wrong.empty()) throw bad_input("names of the state dict", expected, wrong);
}

void check_tensor(const WeightInfo& wanted, const TensorView& tensor) {
  if (tensor.shape() != wanted.shape) {
    throw bad_input("shape", to_string(wanted.shape), to_string(tensor.shape())).in(wanted.name);
  }
  if (!info(tensor.dtype()).is_float) {
    throw bad_input("type", "a floating-point type", std::string(name(tensor.dtype())))
        .in(wanted.name);
  }
}

Tensor filled(const Shape& shape, float value) {
  const std::vector<float> values(static_cast<size_t>(element_count(shape)), value);
  return Tensor::from_f32(shape, values);
}

}  // namespace

BlockSpec decoder_block_spec(const DecoderBlockOptions& options) {
  const int64_t d = options.width;
  if (d < 1 || options.heads < 1 || d % options.heads != 0) {
    throw usage_error("decoder block", "a width that is a multiple of the heads",
                      "width " + std::to_string(d) + ", heads " + std::to_string(options.heads));
  }
  BlockSpec spec;
  spec.width = d;
  const bool layer = options.norm == NormKind::kLayer;
  spec.norm = {.kind = options.norm, .eps = layer ? 1e-5 : 1e-6, .bias = layer};
  AttentionSpec& attention = spec.attention;
  attention.heads = attention.kv_heads = options.heads;
  attention.head_width = d / options.heads;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.output_bias = true;
  attention.score_scale = 1 / std::sqrt(static_cast<double>(attention.head_width));
  const bool gates = gated(options);
  spec.mlp.hidden = gates ? 2 * d : 4 * d;
  spec.mlp.gated = spec.mlp.combined = gates;
  spec.mlp.up_bias = spec.mlp.down_bias = !gates;
  switch (options.mlp) {
    case DecoderBlockMlp::kSwiGlu:
      spec.mlp.activation = Activation::kSilu;
      break;
    case DecoderBlockMlp::kGelu:
      spec.mlp.activation = Activation::kGeluErf;
      break;
    case DecoderBlockMlp::kGeluTanh:
      spec.mlp.activation = Activation::kGeluTanh;
      break;
  }
  validate(spec);
  return spec;
}

std::vector<WeightInfo> decoder_block_state(const DecoderBlockOptions& options) {
  const Program program = build_block_program(decoder_block_spec(options));
  std::vector<WeightInfo> state;
  for (const StateRow& row : state_rows(options)) {
    if (state.empty() || state.back().name != row.name) {
      WeightInfo info = program.weight(*program.find_weight(row.weight));
      info.name = row.name;
      info.shape[0] = 0;
      state.push_back(std::move(info));
    }
    state.back().shape[0] += row.rows;
  }
  return state;
}

StateDict init_decoder_block(const DecoderBlockOptions& options, Generator& generator) {
  const std::vector<WeightInfo> names = decoder_block_state(options);
  const int64_t d = options.width;
  std::map<std::string, std::vector<float>> drawn;
  MultiheadAttentionInit attention = init_multihead_attention(generator, d);
  drawn["attn.in_proj_weight"] = std::move(attention.in_proj_weight);
  drawn["attn.in_proj_bias"] = std::move(attention.in_proj_bias);
  drawn["attn.out_proj.weight"] = std::move(attention.out_proj_weight);
  drawn["attn.out_proj.bias"] = std::move(attention.out_proj_bias);
  if (gated(options)) {
    drawn["mlp.w.weight"] = init_linear(generator, d, 4 * d, false).weight;
    drawn["mlp.w_out.weight"] = init_linear(generator, 2 * d, d, false).weight;
  } else {
    LinearInit up = init_linear(generator, d, 4 * d);
    LinearInit down = init_linear(generator, 4 * d, d);
    drawn["mlp.0.weight"] = std::move(up.weight);
    drawn["mlp.0.bias"] = std::move(up.bias);
    drawn["mlp.2.weight"] = std::move(down.weight);
    drawn["mlp.2.bias"] = std::move(down.bias);
  }
  StateDict state;
  for (const WeightInfo& info : names) {
    const auto found = drawn.find(info.name);
    if (found != drawn.end()) {
      state.push_back({info.name, Tensor::from_f32(info.shape, found->second)});
    } else {  // a norm
      state.push_back({info.name, filled(info.shape, info.name.ends_with(".bias") ? 0.0F : 1.0F)});
    }
  }
  return state;
}

WeightSources decoder_block_weights(const DecoderBlockOptions& options,
                                    std::span<const NamedTensor> state,
                                    const std::shared_ptr<const void>& keep_alive) {
  const std::vector<WeightInfo> wanted = decoder_block_state(options);
  check_names(wanted, state);
  std::map<std::string, TensorView> views;
  for (const NamedTensor& tensor : state) views[tensor.name] = tensor.view;
  for (const WeightInfo& info : wanted) check_tensor(info, views[info.name]);
  WeightSources sources;
  for (const StateRow& row : state_rows(options)) {
    sources[row.weight] = {.tensor = part_of(views[row.name], row.begin, row.rows),
                           .keep_alive = keep_alive};
  }
  return sources;
}

WeightSources decoder_block_weights(const DecoderBlockOptions& options, const StateDict& state) {
  const auto owned = std::make_shared<const StateDict>(state);
  std::vector<NamedTensor> views;
  for (const StateEntry& entry : *owned) views.push_back({entry.name, entry.value.view()});
  return decoder_block_weights(options, views, owned);
}

WeightSources decoder_block_weights(const DecoderBlockOptions& options, const SafetensorsFile& file,
                                    std::string_view prefix) {
  return with_context(file.path(), [&] {
    std::vector<NamedTensor> views;
    for (const StoredTensor& tensor : file.tensors()) {
      if (!tensor.name.starts_with(prefix)) continue;
      views.push_back({tensor.name.substr(prefix.size()), tensor.view()});
    }
    return decoder_block_weights(options, views, file.storage());
  });
}

}  // namespace mainstem
