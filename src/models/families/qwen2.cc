// Qwen2 and Qwen2.5: Llama's block with biases on q, k and v alone. Source of the rules:
// transformers 5.24 models/qwen2, llama.cpp arch "qwen2".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder =
      read_decoder(config, {.vocab = 151936, .hidden = 22016, .context = 32768, .kv_heads = 32});
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(config, 1e-6);
  AttentionSpec& attention = block.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = true;
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
  decoder.block.norm = rms_norm(words);
  decoder.block.attention.rotary =
      read_rotary(words, decoder.block.attention.head_width, decoder.context);
  return decoder_spec(decoder);
}

}  // namespace

Family qwen2_family() {
  return {
      .name = "qwen2",
      .model_types = {"qwen2"},
      .gguf_archs = {"qwen2"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = llama_rows(),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
