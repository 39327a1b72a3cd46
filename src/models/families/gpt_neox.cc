// GPT-NeoX and Pythia: attention and MLP side by side, each through its own norm, a quarter of the
// channels turned. Source of the rules: transformers 5.24 models/gpt_neox, llama.cpp arch
// "gptneox".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec neox_spec(Decoder decoder, bool parallel) {
  BlockSpec& block = decoder.block;
  block.residual = parallel ? ResidualForm::kParallel : ResidualForm::kSequential;
  block.mlp.gated = false;
  block.mlp.up_bias = block.mlp.down_bias = true;
  return decoder_spec(decoder);
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.kv_heads_key = "",
                                          .head_width_key = "",
                                          .vocab = 50432,
                                          .width = 6144,
                                          .hidden = 24576,
                                          .blocks = 44,
                                          .heads = 64,
                                          .context = 2048});
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(config, "layer_norm_eps");
  set_attention_bias(block.attention, config.bool_or("attention_bias", true));
  block.mlp.activation = read_activation(config, "hidden_act", "gelu");
  // Old files say rotary_pct and rotary_emb_base; the reference forgets a rope_theta or
  // partial_rotary_factor that stands outside the record.
  RotaryWords words{.base = config.number_or("rotary_emb_base", 10000),
                    .context = decoder.context,
                    .share = config.number_or("rotary_pct", 0.25),
                    .record_only = true};
  block.attention.rotary = read_rotary(config, block.attention.head_width, words);
  read_head(config, decoder.head, false, has_tensor);
  config.ignore({"classifier_dropout", "hidden_dropout", "head_dim", "gradient_checkpointing"});
  return neox_spec(decoder, config.bool_or("use_parallel_residual", true));
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  block.mlp.activation = Activation::kGeluErf;
  return neox_spec(decoder, words.get_bool("use_parallel_residual").value_or(true));
}

}  // namespace

Family gpt_neox_family() {
  constexpr Layout kPerGroup{.rows = RowLayout::kQkvPerGroup};
  constexpr Layout kQkv{.rows = RowLayout::kQkv};
  constexpr auto kFused = "gpt_neox.layers.{N}.attention.query_key_value";
  return {
      .name = "gpt_neox",
      .model_types = {"gpt_neox"},
      .gguf_archs = {"gptneox"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows =
          {
              {"token_embed", "gpt_neox.embed_in", "token_embd"},
              {"blocks.{N}.attn_norm", "gpt_neox.layers.{N}.input_layernorm", "blk.{N}.attn_norm"},
              {"blocks.{N}.q", kFused, "blk.{N}.attn_qkv", kPerGroup, kQkv},
              {"blocks.{N}.k", kFused, "blk.{N}.attn_qkv", kPerGroup, kQkv},
              {"blocks.{N}.v", kFused, "blk.{N}.attn_qkv", kPerGroup, kQkv},
              {"blocks.{N}.attn_proj", "gpt_neox.layers.{N}.attention.dense",
               "blk.{N}.attn_output"},
              {"blocks.{N}.mlp_norm", "gpt_neox.layers.{N}.post_attention_layernorm",
               "blk.{N}.ffn_norm"},
              {"blocks.{N}.mlp_pre", "gpt_neox.layers.{N}.mlp.dense_h_to_4h", "blk.{N}.ffn_up"},
              {"blocks.{N}.mlp_proj", "gpt_neox.layers.{N}.mlp.dense_4h_to_h", "blk.{N}.ffn_down"},
              {"final_norm", "gpt_neox.final_layer_norm", "output_norm"},
              {"head", "embed_out|lm_head", "output"},
          },
      .prefixes = {"gpt_neox.", ""},
      .ignored_tensors = {"*.attention.bias", "*.attention.masked_bias", "*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
