#include "models/gpt2_reader.h"

#include "models/activation_names.h"

namespace mainstem {

ModelSpec gpt2_spec(Decoder decoder, int64_t position_rows) {
  BlockSpec& block = decoder.block;
  set_attention_bias(block.attention, true);
  block.mlp.gated = false;
  block.mlp.up_bias = block.mlp.down_bias = true;
  ModelSpec spec = decoder_spec(decoder);
  spec.stack.positions = PositionKind::kLearned;
  spec.stack.position_rows = position_rows;
  return spec;
}

ModelSpec read_gpt2(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.width_key = "n_embd|hidden_size",
                                          .hidden_key = "n_inner",
                                          .blocks_key = "n_layer|num_hidden_layers",
                                          .heads_key = "n_head|num_attention_heads",
                                          .kv_heads_key = "",
                                          .head_width_key = "",
                                          .context_key = "n_positions|max_position_embeddings",
                                          .vocab = 50257,
                                          .width = 768,
                                          .hidden = 0,
                                          .blocks = 12,
                                          .heads = 12,
                                          .context = 1024});
  BlockSpec& block = decoder.block;
  if (block.mlp.hidden == 0) block.mlp.hidden = 4 * decoder.width;
  block.norm = layer_norm(config, "layer_norm_epsilon");
  block.mlp.activation = read_activation(config, "activation_function", "gelu_new");
  if (!config.bool_or("scale_attn_weights", true)) block.attention.score_scale = 1;
  if (config.bool_or("add_cross_attention", false)) config.fail("add_cross_attention", "false");
  const bool by_layer = config.bool_or("scale_attn_by_inverse_layer_idx", false);
  config.ignore({"n_ctx", "attn_pdrop", "layer_norm_eps", "reorder_and_upcast_attn",
                 "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj", "gradient_checkpointing"});
  read_head(config, decoder.head, true, has_tensor);
  ModelSpec spec = gpt2_spec(decoder, decoder.context);
  for (size_t n = 0; by_layer && n < spec.stack.blocks.size(); ++n) {
    spec.stack.blocks[n].attention.score_scale /= static_cast<double>(n + 1);
  }
  return spec;
}

std::vector<WeightRow> gpt2_rows() {
  constexpr Layout kConv{.transposed = true};
  constexpr Layout kConvQkv{.rows = RowLayout::kQkv, .transposed = true};
  constexpr Layout kQkv{.rows = RowLayout::kQkv};
  return {
      {"token_embed", "transformer.wte", "token_embd"},
      {"pos_embed", "transformer.wpe", "position_embd"},
      {"blocks.{N}.attn_norm", "transformer.h.{N}.ln_1", "blk.{N}.attn_norm"},
      {"blocks.{N}.q", "transformer.h.{N}.attn.c_attn", "blk.{N}.attn_qkv", kConvQkv, kQkv},
      {"blocks.{N}.k", "transformer.h.{N}.attn.c_attn", "blk.{N}.attn_qkv", kConvQkv, kQkv},
      {"blocks.{N}.v", "transformer.h.{N}.attn.c_attn", "blk.{N}.attn_qkv", kConvQkv, kQkv},
      {"blocks.{N}.attn_proj", "transformer.h.{N}.attn.c_proj", "blk.{N}.attn_output", kConv},
      {"blocks.{N}.mlp_norm", "transformer.h.{N}.ln_2", "blk.{N}.ffn_norm"},
      {"blocks.{N}.mlp_pre", "transformer.h.{N}.mlp.c_fc", "blk.{N}.ffn_up", kConv},
      {"blocks.{N}.mlp_proj", "transformer.h.{N}.mlp.c_proj", "blk.{N}.ffn_down", kConv},
      {"final_norm", "transformer.ln_f", "output_norm"},
      {"head", "lm_head", "output"},
  };
}

}  // namespace mainstem
