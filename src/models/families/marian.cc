// Marian: the original Transformer (Vaswani et al., arXiv:1706.03762) as it is used for
// translation: encoder and decoder that norm after their sub-layers, sinusoidal positions with the
// sines in the first half, one table for both embeddings and the head. Source of the rules:
// transformers 5.24 models/marian.

#include <cmath>

#include "models/activation_names.h"
#include "models/decoder_reader.h"

namespace mainstem {
namespace {

struct StackKeys {
  std::string_view blocks, heads, hidden;
};

AttentionSpec attention_of(int64_t heads, int64_t width, MaskKind mask) {
  AttentionSpec attention;
  attention.heads = attention.kv_heads = heads;
  attention.head_width = width / heads;
  attention.mask = mask;
  attention.score_scale = 1 / std::sqrt(static_cast<double>(attention.head_width));
  set_attention_bias(attention, true);
  return attention;
}

StackSpec read_stack(ConfigReader& config, const StackKeys& keys, int64_t width, bool decoder,
                     Activation activation) {
  const int64_t heads = config.int_or(keys.heads, 16);
  if (heads < 1 || width % heads != 0) config.fail(keys.heads, "a divisor of d_model");
  const int64_t blocks = config.int_or(keys.blocks, 12);
  if (blocks < 1 || blocks > 4096) config.fail(keys.blocks, "1 to 4096");
  BlockSpec block;
  block.width = width;
  block.norm = {.kind = NormKind::kLayer, .eps = 1e-5, .bias = true};
  block.placement = NormPlacement::kPost;
  block.attention = attention_of(heads, width, decoder ? MaskKind::kCausal : MaskKind::kFull);
  if (decoder) block.cross_attention = attention_of(heads, width, MaskKind::kFull);
  block.mlp = {.hidden = config.int_or(keys.hidden, 4096),
               .gated = false,
               .activation = activation,
               .up_bias = true,
               .down_bias = true};
  StackSpec stack;
  stack.width = stack.embed_width = width;
  if (config.bool_or("scale_embedding", false)) {
    stack.embed_scale = std::sqrt(static_cast<double>(width));
  }
  stack.positions = PositionKind::kSinusoidalHalves;
  stack.blocks.assign(static_cast<size_t>(blocks), block);
  return stack;
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  ModelSpec spec;
  spec.vocab_size = config.int_or("vocab_size", 58101);
  spec.context_length = config.int_or("max_position_embeddings", 1024);
  if (config.int_or("decoder_vocab_size", spec.vocab_size) != spec.vocab_size) {
    config.fail("decoder_vocab_size", "vocab_size (two vocabularies are not supported)");
  }
  if (!config.bool_or("share_encoder_decoder_embeddings", true)) {
    config.fail("share_encoder_decoder_embeddings", "true");
  }
  // Words of old files for forms that the reference does not run.
  const std::pair<std::string_view, bool> fixed[] = {{"normalize_before", false},
                                                     {"normalize_embedding", false},
                                                     {"static_position_embeddings", true},
                                                     {"add_final_layer_norm", false},
                                                     {"add_bias_logits", false}};
  for (const auto& [key, value] : fixed) {
    if (config.bool_or(key, value) != value) config.fail(key, value ? "true" : "false");
  }
  const int64_t width = config.int_or("d_model|hidden_size", 1024);
  const Activation activation = read_activation(config, "activation_function", "gelu");
  spec.encoder =
      read_stack(config, {"encoder_layers", "encoder_attention_heads", "encoder_ffn_dim"}, width,
                 false, activation);
  spec.stack = read_stack(config, {"decoder_layers", "decoder_attention_heads", "decoder_ffn_dim"},
                          width, true, activation);
  read_head(config, spec.head, true, has_tensor);
  spec.head.bias = true;
  spec.shared_token_table = true;
  config.ignore({"dropout", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop",
                 "init_std", "classifier_dropout", "num_hidden_layers", "num_attention_heads",
                 "extra_pos_embeddings", "force_bos_token_to_be_generated", "classif_dropout",
                 "gradient_checkpointing", "max_source_positions", "max_target_positions"});
  return spec;
}

}  // namespace

Family marian_family() {
  return {
      .name = "marian",
      .model_types = {"marian"},
      .read_config = read_config,
      .rows =
          {
              {"encoder.token_embed", "model.shared|model.encoder.embed_tokens", ""},
              {"decoder.token_embed", "model.shared|model.decoder.embed_tokens", ""},
              {"encoder.blocks.{N}.q", "model.encoder.layers.{N}.self_attn.q_proj", ""},
              {"encoder.blocks.{N}.k", "model.encoder.layers.{N}.self_attn.k_proj", ""},
              {"encoder.blocks.{N}.v", "model.encoder.layers.{N}.self_attn.v_proj", ""},
              {"encoder.blocks.{N}.attn_proj", "model.encoder.layers.{N}.self_attn.out_proj", ""},
              {"encoder.blocks.{N}.attn_post_norm", "model.encoder.layers.{N}.self_attn_layer_norm",
               ""},
              {"encoder.blocks.{N}.mlp_pre", "model.encoder.layers.{N}.fc1", ""},
              {"encoder.blocks.{N}.mlp_proj", "model.encoder.layers.{N}.fc2", ""},
              {"encoder.blocks.{N}.mlp_post_norm", "model.encoder.layers.{N}.final_layer_norm", ""},
              {"decoder.blocks.{N}.q", "model.decoder.layers.{N}.self_attn.q_proj", ""},
              {"decoder.blocks.{N}.k", "model.decoder.layers.{N}.self_attn.k_proj", ""},
              {"decoder.blocks.{N}.v", "model.decoder.layers.{N}.self_attn.v_proj", ""},
              {"decoder.blocks.{N}.attn_proj", "model.decoder.layers.{N}.self_attn.out_proj", ""},
              {"decoder.blocks.{N}.attn_post_norm", "model.decoder.layers.{N}.self_attn_layer_norm",
               ""},
              {"decoder.blocks.{N}.cross_q", "model.decoder.layers.{N}.encoder_attn.q_proj", ""},
              {"decoder.blocks.{N}.cross_k", "model.decoder.layers.{N}.encoder_attn.k_proj", ""},
              {"decoder.blocks.{N}.cross_v", "model.decoder.layers.{N}.encoder_attn.v_proj", ""},
              {"decoder.blocks.{N}.cross_attn_proj",
               "model.decoder.layers.{N}.encoder_attn.out_proj", ""},
              {"decoder.blocks.{N}.cross_attn_post_norm",
               "model.decoder.layers.{N}.encoder_attn_layer_norm", ""},
              {"decoder.blocks.{N}.mlp_pre", "model.decoder.layers.{N}.fc1", ""},
              {"decoder.blocks.{N}.mlp_proj", "model.decoder.layers.{N}.fc2", ""},
              {"decoder.blocks.{N}.mlp_post_norm", "model.decoder.layers.{N}.final_layer_norm", ""},
              {"decoder.head.weight", "lm_head.weight", ""},
              {"decoder.head.bias", "final_logits_bias", ""},
          },
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*.embed_positions.weight", "model.encoder.embed_tokens.weight",
                          "model.decoder.embed_tokens.weight"},
  };
}

}  // namespace mainstem
