// Llama 1, 2, 3 and what uses the same block (SmolLM2, TinyLlama, …). Source of the rules:
// transformers 5.24 models/llama, and for GGUF llama.cpp's writer and loader of arch "llama".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {});
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(config, 1e-6);
  set_attention_bias(block.attention, config.bool_or("attention_bias", false));
  block.attention.rotary =
      read_rotary(config, block.attention.head_width, {.base = 10000, .context = decoder.context});
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  block.mlp.up_bias = block.mlp.down_bias = config.bool_or("mlp_bias", false);
  read_head(config, decoder.head, false, has_tensor);
  config.ignore({"partial_rotary_factor", "rope_interleaved", "is_llama_config"});
  return decoder_spec(decoder);
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  // llama.cpp does not look at it; a model that has one was trained with it (Mistral 0.1).
  const int64_t window = words.get_int("attention.sliding_window").value_or(0);
  if (window != 0) set_window(block.attention, window);
  return decoder_spec(decoder);
}

}  // namespace

Family llama_family() {
  return {
      .name = "llama",
      .model_types = {"llama"},
      .gguf_archs = {"llama"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = llama_rows({.rows = RowLayout::kPairs}),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
