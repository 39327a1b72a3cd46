#include "mainstem/torch_layer.h"

#include <algorithm>
#include <cmath>

#include "mainstem/error.h"
#include "mainstem/program.h"
#include "models/loaded_files.h"

namespace mainstem {
namespace {

constexpr std::string_view kLayer = "{encoder_layers}.{N}.";

/// The family whose rows name the layer's weights, without what stands before them there.
Family layer_family() {
  const auto all = families();
  Family family = *std::find_if(
      all.begin(), all.end(), [](const Family& each) { return each.name == "torch_transformer"; });
  for (WeightRow& row : family.rows) {
    if (row.hf.starts_with(kLayer)) row.hf = row.hf.substr(kLayer.size());
  }
  family.ignored_tensors.clear();
  return family;
}

BlockSpec layer_spec(const Shape& up, const TorchLayerOptions& options) {
  const int64_t width = up[1];
  if (options.heads < 1 || width % options.heads != 0) {
    throw usage_error("heads", "a divisor of the width " + std::to_string(width),
                      std::to_string(options.heads));
  }
  BlockSpec spec;
  spec.width = width;
  spec.norm = {.kind = NormKind::kLayer, .eps = options.eps, .bias = options.bias};
  spec.placement = options.norm_first ? NormPlacement::kPre : NormPlacement::kPost;
  AttentionSpec& attention = spec.attention;
  attention.heads = attention.kv_heads = options.heads;
  attention.head_width = width / options.heads;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.output_bias = options.bias;
  attention.mask = options.causal ? MaskKind::kCausal : MaskKind::kFull;
  attention.score_scale = 1 / std::sqrt(static_cast<double>(attention.head_width));
  spec.mlp.hidden = up[0];
  spec.mlp.gated = false;
  spec.mlp.activation = options.activation;
  spec.mlp.up_bias = spec.mlp.down_bias = options.bias;
  return spec;
}

}  // namespace

TorchLayer torch_encoder_layer(std::span<const NamedTensor> state, const TorchLayerOptions& options,
                               const std::shared_ptr<const void>& keep_alive) {
  std::vector<StoredTensor> stored;
  for (const auto& [tensor_name, view] : state) {
    StoredTensor& each = stored.emplace_back();
    each.name = tensor_name;
    each.dtype = view.dtype();
    each.shape = view.shape();
    each.data = view.data();
    each.bytes = static_cast<uint64_t>(view.bytes());
  }
  const auto find = [&](const std::string& wanted) -> FoundTensor {
    const auto found = std::find_if(stored.begin(), stored.end(),
                                    [&](const StoredTensor& each) { return each.name == wanted; });
    if (found == stored.end()) return {};
    return {&*found, keep_alive};
  };
  const FoundTensor up = find("linear1.weight");
  if (up.tensor == nullptr || up.tensor->shape.size() != 2) {
    throw bad_input("linear1.weight", "a matrix [F,D]",
                    up.tensor == nullptr ? "none" : to_string(up.tensor->shape))
        .in("state dict");
  }
  TorchLayer layer{layer_spec(up.tensor->shape, options), {}};
  const Family family = layer_family();
  std::set<std::string> used;
  const std::string where = "state dict";
  layer.weights = find_weights(build_block_program(layer.spec), family, false, find, where, used);
  std::vector<const StoredTensor*> all;
  for (const StoredTensor& tensor : stored) all.push_back(&tensor);
  unused_tensors(all, used, family, where);
  return layer;
}

TorchLayer torch_encoder_layer(const SafetensorsFile& file, std::string_view prefix,
                               const TorchLayerOptions& options) {
  return with_context(file.path(), [&] {
    std::vector<NamedTensor> views;
    for (const StoredTensor& tensor : file.tensors()) {
      if (!tensor.name.starts_with(prefix)) continue;
      views.push_back({tensor.name.substr(prefix.size()), tensor.view()});
    }
    return torch_encoder_layer(views, options, file.storage());
  });
}

}  // namespace mainstem
