// Cohere Command-R: attention and MLP side by side through one LayerNorm without bias,
// neighbouring channels turned, logits scaled. Source of the rules: transformers 5.24
// models/cohere, llama.cpp arch "command-r".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec cohere_spec(Decoder decoder, bool qk_norm) {
  BlockSpec& block = decoder.block;
  block.residual = ResidualForm::kParallelSharedNorm;
  block.norm.bias = false;
  block.attention.rotary->pairing = RotaryPairing::kInterleaved;
  if (qk_norm) {
    block.attention.qk_norm = QkNormSpec{.norm = block.norm, .weight_per_head = true};
  }
  return decoder_spec(decoder);
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.vocab = 256000,
                                          .width = 8192,
                                          .hidden = 22528,
                                          .blocks = 40,
                                          .heads = 64,
                                          .context = 8192});
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(config, "layer_norm_eps");
  set_attention_bias(block.attention, config.bool_or("attention_bias", false));
  block.attention.rotary =
      read_rotary(config, block.attention.head_width, {.base = 10000, .context = decoder.context});
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  read_head(config, decoder.head, true, has_tensor);
  decoder.head.logit_scale = config.number_or("logit_scale", 0.0625);
  config.ignore({"partial_rotary_factor"});
  return cohere_spec(decoder, config.bool_or("use_qk_norm", false));
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  decoder.head.logit_scale = words.need_number("logit_scale");
  return cohere_spec(decoder, words.has("blk.0.attn_q_norm.weight"));
}

}  // namespace

Family cohere_family() {
  return {
      .name = "cohere",
      .model_types = {"cohere"},
      .gguf_archs = {"command-r"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = llama_rows(),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
