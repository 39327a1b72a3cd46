// Qwen3 (dense): a norm on each head of q and k before the rotary turn. Source of the rules:
// transformers 5.24 models/qwen3, llama.cpp arch "qwen3".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  if (config.is_null("head_dim")) config.fail("head_dim", "an integer");
  Decoder decoder = read_decoder(
      config,
      {.vocab = 151936, .hidden = 22016, .context = 32768, .kv_heads = 32, .head_width = 128});
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(config, 1e-6);
  AttentionSpec& attention = block.attention;
  set_attention_bias(attention, config.bool_or("attention_bias", false));
  attention.qk_norm = QkNormSpec{.norm = block.norm};
  attention.rotary =
      read_rotary(config, attention.head_width, {.base = 10000, .context = decoder.context});
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  read_head(config, decoder.head, false, has_tensor);
  ModelSpec spec = decoder_spec(decoder);
  set_late_windows(config, spec);
  config.ignore({"partial_rotary_factor"});
  return spec;
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(words);
  block.attention.qk_norm = QkNormSpec{.norm = block.norm};
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  return decoder_spec(decoder);
}

}  // namespace

Family qwen3_family() {
  return {
      .name = "qwen3",
      .model_types = {"qwen3"},
      .gguf_archs = {"qwen3"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = llama_rows(),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
