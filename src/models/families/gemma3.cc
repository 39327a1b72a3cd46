// Gemma 3 (text): Gemma 2's block with q/k norms instead of the attention cap, and two kinds of
// rotary positions: five sliding blocks with their own base, then one over everything. Source of
// the rules: transformers 5.24 models/gemma3, llama.cpp arch "gemma3".

#include <algorithm>
#include <cmath>

#include "mainstem/error.h"
#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

struct Positions {
  RotarySpec local, global;
};

ModelSpec gemma3_spec(Decoder decoder, int64_t window, const std::vector<bool>& sliding,
                      const Positions& positions) {
  BlockSpec& block = decoder.block;
  block.placement = NormPlacement::kSandwich;
  block.attention.qk_norm = QkNormSpec{.norm = block.norm};
  block.attention.rotary = positions.global;
  ModelSpec spec = decoder_spec(decoder);
  spec.stack.embed_scale = std::sqrt(static_cast<double>(decoder.width));
  for (size_t n = 0; n < sliding.size(); ++n) {
    if (!sliding[n]) continue;
    spec.stack.blocks[n].attention.rotary = positions.local;
    set_window(spec.stack.blocks[n].attention, window);
  }
  return spec;
}

/// New form: a record for each kind of block. Old form: rope_theta and rope_scaling are the global
/// blocks', rope_local_base_freq the local ones'. A new-form record without kinds is not looked
/// at, as in the reference.
Positions read_positions(ConfigReader& config, int64_t head_width, int64_t context) {
  Positions positions;
  positions.global.width = positions.local.width = head_width;
  positions.global.base = config.number_or("rope_theta", 1e6);
  positions.local.base = config.number_or("rope_local_base_freq", 1e4);
  const auto apply = [&](const nlohmann::json* record, RotarySpec& rotary, const char* name) {
    if (record == nullptr || record->empty()) return;
    ConfigReader rope(*record, std::string(name) + ", " + config.file());
    rotary = read_rotary_record(rope, rotary, context);
    check_divisors(rope, rotary);
    rope.ignore({"partial_rotary_factor"});
    rope.finish({});
  };
  apply(config.get_object("rope_scaling"), positions.global, "rope_scaling");
  if (const nlohmann::json* records = config.get_object("rope_parameters")) {
    ConfigReader kinds(*records, "rope_parameters, " + config.file());
    if (kinds.has("full_attention") || kinds.has("sliding_attention")) {
      apply(kinds.get_object("full_attention"), positions.global, "full_attention");
      apply(kinds.get_object("sliding_attention"), positions.local, "sliding_attention");
      kinds.finish({});
    }
  }
  return positions;
}

ModelSpec read_text(ConfigReader& config, bool has_head, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.vocab = 262208,
                                          .width = 2304,
                                          .hidden = 9216,
                                          .blocks = 26,
                                          .heads = 8,
                                          .context = 131072,
                                          .kv_heads = 4,
                                          .head_width = 256});
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(config, 1e-6);
  block.norm.weight_offset = 1;
  AttentionSpec& attention = block.attention;
  set_attention_bias(attention, config.bool_or("attention_bias", false));
  attention.score_scale = 1 / std::sqrt(config.number_or("query_pre_attn_scalar", 256));
  block.mlp.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  if (config.bool_or("use_bidirectional_attention", false)) {
    config.fail("use_bidirectional_attention", "false");
  }
  // The reference stores it and never applies it; released configs have none.
  attention.soft_cap = soft_cap(config, "attn_logit_softcapping", 0);
  config.ignore({"_sliding_window_pattern", "cache_implementation", "partial_rotary_factor"});
  decoder.head.tied = reads_tied(config, true, has_tensor);
  decoder.head.logit_cap = soft_cap(config, "final_logit_softcapping", 0);
  if (!has_head) decoder.head.kind = HeadKind::kNone;
  const int64_t pattern = config.int_or("sliding_window_pattern", 6);
  if (pattern < 1) config.fail("sliding_window_pattern", "1 or more");
  const auto slides = [&](int64_t n) { return (n + 1) % pattern != 0; };
  return gemma3_spec(decoder, config.int_or("sliding_window", 4096),
                     sliding_blocks(config, decoder.blocks, slides),
                     read_positions(config, attention.head_width, decoder.context));
}

/// Of a file with pictures the text part is read.
ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  const bool has_head = class_has_head(config);
  const nlohmann::json* text = config.get_object("text_config");
  if (text == nullptr) return read_text(config, has_head, has_tensor);
  config.ignore({"vision_config", "boi_token_index", "eoi_token_index", "image_token_index",
                 "mm_tokens_per_image", "tie_word_embeddings", "boi_token_id", "eoi_token_id",
                 "image_token_id"});
  ConfigReader inner(*text, "text_config, " + config.file());
  ModelSpec spec = read_text(inner, has_head, has_tensor);
  inner.finish({});
  return spec;
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(words);
  AttentionSpec& attention = block.attention;
  Positions positions;
  positions.global = read_rotary(words, attention.head_width, decoder.context);
  if (!words.get_number("rope.freq_base")) positions.global.base = 1e6;
  positions.local.width = positions.global.width;
  positions.local.base = words.get_number("rope.freq_base_swa").value_or(1e4);
  // The file has no key for it: the 27B model alone scales by the stream's width per head.
  constexpr int64_t kBlocksOf27B = 62;
  const int64_t scalar =
      decoder.blocks == kBlocksOf27B ? decoder.width / attention.heads : attention.head_width;
  attention.score_scale = 1 / std::sqrt(static_cast<double>(scalar));
  block.mlp.activation = Activation::kGeluTanh;
  decoder.head.logit_cap = words.get_number("final_logit_softcapping").value_or(0);
  const std::vector<bool> sliding = sliding_blocks(words, decoder.blocks, 6);
  // A model whose blocks all see everything says no window.
  const auto window = words.get_int("attention.sliding_window");
  const bool slides = std::find(sliding.begin(), sliding.end(), true) != sliding.end();
  if (slides && !window) words.need_int("attention.sliding_window");
  return gemma3_spec(decoder, window.value_or(0), sliding, positions);
}

}  // namespace

Family gemma3_family() {
  return {
      .name = "gemma3",
      .model_types = {"gemma3_text", "gemma3"},
      .gguf_archs = {"gemma3"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = sandwich_rows(),
      .prefixes = {"model.", "", "language_model.model.", "model.language_model."},
      .ignored_tensors = {"*rotary_emb.inv_freq", "*vision_tower.*", "*multi_modal_projector.*"},
  };
}

}  // namespace mainstem
