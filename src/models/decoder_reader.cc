#include "models/decoder_reader.h"

#include <algorithm>
#include <cmath>

#include "mainstem/error.h"

namespace mainstem {
namespace {

// A spec has a copy of its block for each, with a slope for each head and a divisor for each pair
// of channels: these bounds keep what a file of a few words can make us allocate to some megabytes.
constexpr int64_t kMostBlocks = 1024;
constexpr int64_t kMostHeads = 4096;
constexpr int64_t kMostHeadWidth = 4096;
constexpr int64_t kMostWidth = 1 << 24;
constexpr int64_t kMostContext = int64_t{1} << 40;

void check_sizes(const Decoder& decoder, const AttentionSpec& attention) {
  const auto check = [](std::string_view what, int64_t value, int64_t most, int64_t least = 1) {
    if (value >= least && value <= most) return;
    throw bad_input(std::string(what), std::to_string(least) + " to " + std::to_string(most),
                    std::to_string(value));
  };
  check("width", decoder.width, kMostWidth);
  check("number of blocks", decoder.blocks, kMostBlocks);
  check("number of heads", attention.heads, kMostHeads);
  check("number of key/value heads", attention.kv_heads, attention.heads);
  check("head width", attention.head_width, kMostHeadWidth);
  check("context length", decoder.context, kMostContext, 0);
}

}  // namespace

Decoder read_decoder(ConfigReader& config, const DecoderWords& words) {
  Decoder decoder;
  decoder.vocab = config.int_or(words.vocab_key, words.vocab);
  decoder.width = config.int_or(words.width_key, words.width);
  decoder.blocks = config.int_or(words.blocks_key, words.blocks);
  decoder.context = config.int_or(words.context_key, words.context);
  decoder.block.mlp.hidden =
      words.hidden_key.empty() ? words.hidden : config.int_or(words.hidden_key, words.hidden);
  AttentionSpec& attention = decoder.block.attention;
  attention.heads = config.int_or(words.heads_key, words.heads);
  attention.kv_heads = words.kv_heads == 0 ? attention.heads : words.kv_heads;
  if (!words.kv_heads_key.empty()) {
    attention.kv_heads = config.int_or(words.kv_heads_key, attention.kv_heads);
  }
  if (attention.heads < 1) config.fail(words.heads_key, "1 or more");
  std::optional<int64_t> head_width;
  if (words.head_width > 0) head_width = words.head_width;
  if (!words.head_width_key.empty()) {
    if (const auto own = config.get_int(words.head_width_key)) head_width = own;
  }
  if (!head_width && decoder.width % attention.heads != 0) {
    config.fail(words.width_key, "a multiple of the number of heads");
  }
  attention.head_width = head_width.value_or(decoder.width / attention.heads);
  check_sizes(decoder, attention);
  return decoder;
}

Decoder read_decoder(GgufWords& words) {
  Decoder decoder;
  const StoredTensor* table = words.find("token_embd.weight");
  if (table == nullptr || table->shape.size() != 2) {
    throw bad_input("token_embd.weight", "a matrix", table == nullptr ? "none" : "another rank")
        .in(words.path());
  }
  decoder.vocab = table->shape[0];
  decoder.width = words.need_int("embedding_length");
  decoder.blocks = words.need_int("block_count");
  decoder.context = words.get_int("context_length").value_or(0);
  decoder.block.mlp.hidden = words.need_int("feed_forward_length");
  AttentionSpec& attention = decoder.block.attention;
  attention.heads = words.need_int("attention.head_count");
  attention.kv_heads = words.get_int("attention.head_count_kv").value_or(attention.heads);
  if (attention.heads < 1) {
    words.fail("attention.head_count", "1 or more", std::to_string(attention.heads));
  }
  const auto head_width = words.get_int("attention.key_length");
  if (!head_width && decoder.width % attention.heads != 0) {
    words.fail("embedding_length", "a multiple of the heads", std::to_string(decoder.width));
  }
  attention.head_width = head_width.value_or(decoder.width / attention.heads);
  const auto value_width = words.get_int("attention.value_length");
  if (value_width && *value_width != attention.head_width) {
    words.fail("attention.value_length", "the key length " + std::to_string(attention.head_width),
               std::to_string(*value_width));
  }
  if (const int64_t experts = words.get_int("expert_count").value_or(0); experts > 0) {
    words.fail("expert_count", "0 (mixtures of experts are not supported)",
               std::to_string(experts));
  }
  words.ignore({"vocab_size", "expert_used_count", "rope.scaling.finetuned"});
  check_sizes(decoder, attention);

  const bool fused = words.has("blk.0.attn_qkv.bias");
  attention.q_bias = fused || words.has("blk.0.attn_q.bias");
  attention.k_bias = fused || words.has("blk.0.attn_k.bias");
  attention.v_bias = fused || words.has("blk.0.attn_v.bias");
  attention.output_bias = words.has("blk.0.attn_output.bias");
  decoder.block.mlp.up_bias = words.has("blk.0.ffn_up.bias");
  decoder.block.mlp.down_bias = words.has("blk.0.ffn_down.bias");
  decoder.head.tied = !words.has("output.weight");
  decoder.head.bias = words.has("output.bias");
  return decoder;
}

ModelSpec decoder_spec(const Decoder& decoder) {
  BlockSpec block = decoder.block;
  block.width = decoder.width;
  if (block.attention.score_scale == 0) {
    block.attention.score_scale = 1 / std::sqrt(static_cast<double>(block.attention.head_width));
  }
  ModelSpec spec;
  spec.vocab_size = decoder.vocab;
  spec.context_length = decoder.context;
  spec.stack.width = spec.stack.embed_width = decoder.width;
  spec.stack.blocks.assign(static_cast<size_t>(decoder.blocks), block);
  spec.stack.final_norm = block.norm;
  spec.head = decoder.head;
  return spec;
}

void set_attention_bias(AttentionSpec& attention, bool bias) {
  attention.q_bias = attention.k_bias = attention.v_bias = attention.output_bias = bias;
}

void set_window(AttentionSpec& attention, int64_t window) {
  attention.mask = MaskKind::kWindow;
  attention.window = window;
}

void set_late_windows(ConfigReader& config, ModelSpec& spec) {
  const bool slides = config.bool_or("use_sliding_window", false);
  const int64_t window = config.int_or("sliding_window", 4096);
  const int64_t first = config.int_or("max_window_layers", 28);
  const auto blocks = static_cast<int64_t>(spec.stack.blocks.size());
  const bool has_window = slides && !config.is_null("sliding_window");
  const auto sliding =
      sliding_blocks(config, blocks, [&](int64_t n) { return has_window && n >= first; });
  for (size_t n = 0; n < sliding.size(); ++n) {
    if (!sliding[n]) continue;
    if (!has_window) config.fail("layer_types", "full_attention where use_sliding_window is off");
    set_window(spec.stack.blocks[n].attention, window);
  }
}

double soft_cap(ConfigReader& config, std::string_view key, double default_cap) {
  return config.is_null(key) ? 0 : config.number_or(key, default_cap);
}

NormSpec rms_norm(ConfigReader& config, double default_eps, std::string_view key) {
  return {.kind = NormKind::kRms, .eps = config.number_or(key, default_eps)};
}

NormSpec layer_norm(ConfigReader& config, std::string_view key, double default_eps) {
  return {.kind = NormKind::kLayer, .eps = config.number_or(key, default_eps), .bias = true};
}

NormSpec rms_norm(GgufWords& words) {
  return {.kind = NormKind::kRms, .eps = words.need_number("attention.layer_norm_rms_epsilon")};
}

NormSpec layer_norm(GgufWords& words) {
  return {.kind = NormKind::kLayer,
          .eps = words.need_number("attention.layer_norm_epsilon"),
          .bias = true};
}

bool class_has_head(ConfigReader& config) {
  const auto classes = config.get_strings("architectures");
  if (classes.empty()) return true;
  const std::string& name = classes.front();
  return name.ends_with("LMHeadModel") || name.ends_with("MTModel") || !name.ends_with("Model");
}

bool reads_tied(ConfigReader& config, bool default_value, const HasTensor& has_tensor,
                std::string_view head_tensor) {
  return config.bool_or("tie_word_embeddings", default_value) && !has_tensor(head_tensor);
}

void read_head(ConfigReader& config, HeadSpec& head, bool tied_by_default,
               const HasTensor& has_tensor) {
  head.tied = reads_tied(config, tied_by_default, has_tensor);
  if (!class_has_head(config)) head.kind = HeadKind::kNone;
}

std::vector<bool> sliding_blocks(ConfigReader& config, int64_t blocks,
                                 const std::function<bool(int64_t)>& otherwise) {
  std::vector<bool> sliding;
  const auto types = config.get_strings("layer_types");
  if (types.empty()) {
    for (int64_t n = 0; n < blocks; ++n) sliding.push_back(otherwise(n));
    return sliding;
  }
  if (static_cast<int64_t>(types.size()) != blocks) {
    config.fail("layer_types", "one for each of the " + std::to_string(blocks) + " blocks");
  }
  for (const std::string& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      config.fail("layer_types", "sliding_attention or full_attention");
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

std::vector<bool> sliding_blocks(GgufWords& words, int64_t blocks, int64_t pattern) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  if (words.is_list(kKey)) {
    const auto flags = *words.get_per_block(kKey, blocks);
    return {flags.begin(), flags.end()};
  }
  const int64_t own = words.get_int(kKey).value_or(pattern);
  if (own < 1) words.fail(kKey, "1 or more", std::to_string(own));
  std::vector<bool> sliding;
  for (int64_t n = 0; n < blocks; ++n) sliding.push_back((n + 1) % own != 0);
  return sliding;
}

std::vector<WeightRow> llama_rows(Layout gguf_qk) {
  return {
      {"token_embed", "model.embed_tokens", "token_embd"},
      {"blocks.{N}.attn_norm", "model.layers.{N}.input_layernorm", "blk.{N}.attn_norm"},
      {"blocks.{N}.q", "model.layers.{N}.self_attn.q_proj", "blk.{N}.attn_q", {}, gguf_qk},
      {"blocks.{N}.k", "model.layers.{N}.self_attn.k_proj", "blk.{N}.attn_k", {}, gguf_qk},
      {"blocks.{N}.v", "model.layers.{N}.self_attn.v_proj", "blk.{N}.attn_v"},
      {"blocks.{N}.q_norm", "model.layers.{N}.self_attn.q_norm", "blk.{N}.attn_q_norm"},
      {"blocks.{N}.k_norm", "model.layers.{N}.self_attn.k_norm", "blk.{N}.attn_k_norm"},
      {"blocks.{N}.attn_proj", "model.layers.{N}.self_attn.o_proj", "blk.{N}.attn_output"},
      {"blocks.{N}.mlp_norm", "model.layers.{N}.post_attention_layernorm", "blk.{N}.ffn_norm"},
      {"blocks.{N}.mlp_gate", "model.layers.{N}.mlp.gate_proj", "blk.{N}.ffn_gate"},
      {"blocks.{N}.mlp_value", "model.layers.{N}.mlp.up_proj", "blk.{N}.ffn_up"},
      {"blocks.{N}.mlp_proj", "model.layers.{N}.mlp.down_proj", "blk.{N}.ffn_down"},
      {"final_norm", "model.norm", "output_norm"},
      {"head", "lm_head", "output"},
  };
}

std::vector<WeightRow> sandwich_rows() {
  return with_rows(
      llama_rows(),
      {
          {"blocks.{N}.attn_post_norm", "model.layers.{N}.post_attention_layernorm",
           "blk.{N}.post_attention_norm"},
          {"blocks.{N}.mlp_norm", "model.layers.{N}.pre_feedforward_layernorm", "blk.{N}.ffn_norm"},
          {"blocks.{N}.mlp_post_norm", "model.layers.{N}.post_feedforward_layernorm",
           "blk.{N}.post_ffw_norm"},
      });
}

std::vector<WeightRow> with_rows(std::vector<WeightRow> rows, const std::vector<WeightRow>& more) {
  for (const WeightRow& row : more) {
    const auto same = [&](const WeightRow& other) { return other.own == row.own; };
    const auto found = std::find_if(rows.begin(), rows.end(), same);
    if (found != rows.end()) {
      *found = row;
    } else {
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace mainstem
