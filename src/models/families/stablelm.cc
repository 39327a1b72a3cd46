// StableLM: Llama's block with LayerNorm and a quarter of the channels turned; one form runs
// attention and MLP side by side through one norm. Source of the rules: transformers 5.24
// models/stablelm, llama.cpp arch "stablelm".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec stablelm_spec(Decoder decoder, bool parallel, bool qk_norm) {
  BlockSpec& block = decoder.block;
  if (parallel) block.residual = ResidualForm::kParallelSharedNorm;
  if (qk_norm) {
    block.attention.qk_norm = QkNormSpec{.norm = block.norm, .weight_per_head = true};
    block.attention.qk_norm->norm.bias = false;
  }
  return decoder_spec(decoder);
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.head_width_key = "",
                                          .vocab = 50304,
                                          .width = 2560,
                                          .hidden = 6912,
                                          .blocks = 32,
                                          .heads = 32,
                                          .context = 4096,
                                          .kv_heads = 32});
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(config, "layer_norm_eps");
  AttentionSpec& attention = block.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = config.bool_or("use_qkv_bias", false);
  attention.rotary = read_rotary(config, attention.head_width,
                                 {.base = 10000, .context = decoder.context, .share = 0.25});
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  read_head(config, decoder.head, false, has_tensor);
  config.ignore({"hidden_dropout", "rope_pct", "norm_eps", "rotary_scaling_factor"});
  return stablelm_spec(decoder, config.bool_or("use_parallel_residual", false),
                       config.bool_or("qk_layernorm", false));
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  // The converter writes `true` wherever config.json says nothing, so the key means nothing; the
  // form without a second norm is the parallel one, and llama.cpp goes by that too.
  words.ignore({"use_parallel_residual"});
  const bool parallel = !words.has("blk.0.ffn_norm.weight");
  return stablelm_spec(decoder, parallel, words.has("blk.0.attn_q_norm.weight"));
}

}  // namespace

Family stablelm_family() {
  constexpr Layout kPerHead{.rows = RowLayout::kPerHead};
  return {
      .name = "stablelm",
      .model_types = {"stablelm"},
      .gguf_archs = {"stablelm"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows =
          with_rows(llama_rows(),
                    {
                        {"blocks.{N}.q_norm", "model.layers.{N}.self_attn.q_layernorm.norms.{H}",
                         "blk.{N}.attn_q_norm", kPerHead},
                        {"blocks.{N}.k_norm", "model.layers.{N}.self_attn.k_layernorm.norms.{H}",
                         "blk.{N}.attn_k_norm", kPerHead},
                    }),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
