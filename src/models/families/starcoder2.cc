// StarCoder2: grouped heads and rotary positions with GPT-2's LayerNorm, biases and plain MLP; the
// window, where there is one, is on every block. Source of the rules: transformers 5.24
// models/starcoder2, llama.cpp arch "starcoder2".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.vocab = 49152,
                                          .width = 3072,
                                          .hidden = 12288,
                                          .blocks = 30,
                                          .heads = 24,
                                          .context = 4096,
                                          .kv_heads = 2});
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(config, "norm_epsilon");
  const bool bias = config.bool_or("use_bias", true);
  set_attention_bias(block.attention, bias);
  block.attention.rotary =
      read_rotary(config, block.attention.head_width, {.base = 10000, .context = decoder.context});
  if (const auto window = config.get_int("sliding_window")) set_window(block.attention, *window);
  block.mlp.gated = false;
  block.mlp.up_bias = block.mlp.down_bias = bias;
  block.mlp.activation = read_activation(config, "hidden_act", "gelu_pytorch_tanh");
  read_head(config, decoder.head, true, has_tensor);
  // The second line is in released files; the class looks at none of it.
  config.ignore({"residual_dropout", "embedding_dropout", "partial_rotary_factor",
                 "activation_function", "attention_softmax_in_fp32", "layer_norm_epsilon",
                 "mlp_type", "norm_type", "scale_attention_softmax_in_fp32", "scale_attn_weights"});
  return decoder_spec(decoder);
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  // Converters leave it out and llama.cpp does not look at it; a file that has one means it.
  const int64_t window = words.get_int("attention.sliding_window").value_or(0);
  if (window != 0) set_window(block.attention, window);
  block.mlp.gated = false;
  block.mlp.activation = Activation::kGeluTanh;
  return decoder_spec(decoder);
}

}  // namespace

Family starcoder2_family() {
  return {
      .name = "starcoder2",
      .model_types = {"starcoder2"},
      .gguf_archs = {"starcoder2"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows =
          with_rows(llama_rows(),
                    {
                        {"blocks.{N}.mlp_pre", "model.layers.{N}.mlp.c_fc", "blk.{N}.ffn_up"},
                        {"blocks.{N}.mlp_proj", "model.layers.{N}.mlp.c_proj", "blk.{N}.ffn_down"},
                    }),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
