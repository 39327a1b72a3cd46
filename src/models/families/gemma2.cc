// Gemma 2: norms before and after each sub-layer, soft caps, and a window on every other block.
// Source of the rules: transformers 5.24 models/gemma2, llama.cpp arch "gemma2".

#include <cmath>

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec gemma2_spec(Decoder decoder, int64_t window, const std::vector<bool>& sliding) {
  decoder.block.placement = NormPlacement::kSandwich;
  ModelSpec spec = decoder_spec(decoder);
  spec.stack.embed_scale = std::sqrt(static_cast<double>(decoder.width));
  for (size_t n = 0; n < sliding.size(); ++n) {
    if (sliding[n]) set_window(spec.stack.blocks[n].attention, window);
  }
  return spec;
}

bool slides_by_default(int64_t block) { return block % 2 == 0; }

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.vocab = 256000,
                                          .width = 2304,
                                          .hidden = 9216,
                                          .blocks = 26,
                                          .heads = 8,
                                          .context = 8192,
                                          .kv_heads = 4,
                                          .head_width = 256});
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(config, 1e-6);
  block.norm.weight_offset = 1;
  AttentionSpec& attention = block.attention;
  set_attention_bias(attention, config.bool_or("attention_bias", false));
  attention.rotary =
      read_rotary(config, attention.head_width, {.base = 10000, .context = decoder.context});
  attention.score_scale = 1 / std::sqrt(config.number_or("query_pre_attn_scalar", 256));
  attention.soft_cap = soft_cap(config, "attn_logit_softcapping", 50);
  block.mlp.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  config.ignore({"hidden_act", "sliding_window_pattern", "cache_implementation",
                 "partial_rotary_factor", "use_bidirectional_attention"});
  decoder.head.logit_cap = soft_cap(config, "final_logit_softcapping", 30);
  read_head(config, decoder.head, true, has_tensor);
  return gemma2_spec(decoder, config.int_or("sliding_window", 4096),
                     sliding_blocks(config, decoder.blocks, slides_by_default));
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(words);
  AttentionSpec& attention = block.attention;
  attention.rotary = read_rotary(words, attention.head_width, decoder.context);
  // The 27B model alone scales by its width per head of the stream (llama.cpp knows it so too).
  constexpr int64_t kBlocksOf27B = 46;
  const int64_t scalar =
      decoder.blocks == kBlocksOf27B ? decoder.width / attention.heads : attention.head_width;
  attention.score_scale = 1 / std::sqrt(static_cast<double>(scalar));
  attention.soft_cap = words.get_number("attn_logit_softcapping").value_or(50);
  block.mlp.activation = Activation::kGeluTanh;
  decoder.head.logit_cap = words.get_number("final_logit_softcapping").value_or(30);
  return gemma2_spec(decoder, words.get_int("attention.sliding_window").value_or(4096),
                     sliding_blocks(words, decoder.blocks, 2));
}

}  // namespace

Family gemma2_family() {
  return {
      .name = "gemma2",
      .model_types = {"gemma2"},
      .gguf_archs = {"gemma2"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = sandwich_rows(),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
