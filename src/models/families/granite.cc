// Granite 3: Llama's block with four multipliers, on embedding, scores, what joins the stream, and
// (as a divisor) logits. Source of the rules: transformers 5.24 models/granite, llama.cpp arch
// "granite".

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
  block.attention.score_scale = config.number_or("attention_multiplier", 1);
  block.residual_multiplier = config.number_or("residual_multiplier", 1);
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  block.mlp.up_bias = block.mlp.down_bias = config.bool_or("mlp_bias", false);
  read_head(config, decoder.head, false, has_tensor);
  decoder.head.logit_scale = 1 / config.number_or("logits_scaling", 1);
  config.ignore({"partial_rotary_factor"});
  ModelSpec spec = decoder_spec(decoder);
  spec.stack.embed_scale = config.number_or("embedding_multiplier", 1);
  return spec;
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  block.attention.score_scale = words.get_number("attention.scale").value_or(0);
  block.residual_multiplier = words.get_number("residual_scale").value_or(1);
  decoder.head.logit_scale = 1 / words.get_number("logit_scale").value_or(1);
  ModelSpec spec = decoder_spec(decoder);
  spec.stack.embed_scale = words.get_number("embedding_scale").value_or(1);
  return spec;
}

}  // namespace

Family granite_family() {
  return {
      .name = "granite",
      .model_types = {"granite"},
      .gguf_archs = {"granite"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = llama_rows({.rows = RowLayout::kPairs}),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
