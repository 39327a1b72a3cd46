// Gemma 1: Llama's block with 1 + w in the norms, a GELU gate and a scaled embedding. Source of
// the rules: transformers 5.24 models/gemma, llama.cpp arch "gemma" (there the 1 is in the file's
// norm weights already).

#include <cmath>

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec gemma_spec(const Decoder& decoder) {
  ModelSpec spec = decoder_spec(decoder);
  spec.stack.embed_scale = std::sqrt(static_cast<double>(decoder.width));
  return spec;
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.vocab = 256000,
                                          .width = 3072,
                                          .hidden = 24576,
                                          .blocks = 28,
                                          .heads = 16,
                                          .context = 8192,
                                          .kv_heads = 16,
                                          .head_width = 256});
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(config, 1e-6);
  block.norm.weight_offset = 1;
  set_attention_bias(block.attention, config.bool_or("attention_bias", false));
  block.attention.rotary =
      read_rotary(config, block.attention.head_width, {.base = 10000, .context = decoder.context});
  // In this family "gelu" has always meant the tanh form, and hidden_activation is not looked at.
  block.mlp.activation = read_activation(config, "hidden_act", "gelu_pytorch_tanh");
  if (block.mlp.activation == Activation::kGeluErf) block.mlp.activation = Activation::kGeluTanh;
  config.ignore({"hidden_activation", "partial_rotary_factor", "use_bidirectional_attention"});
  read_head(config, decoder.head, true, has_tensor);
  return gemma_spec(decoder);
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  block.mlp.activation = Activation::kGeluTanh;
  return gemma_spec(decoder);
}

}  // namespace

Family gemma_family() {
  return {
      .name = "gemma",
      .model_types = {"gemma"},
      .gguf_archs = {"gemma"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = llama_rows(),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
