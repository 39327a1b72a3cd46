// OPT: learned positions two rows into their table, ReLU; the 350M size norms after its sub-layers
// and holds its embeddings narrower than the stream. Source of the rules: transformers 5.24
// models/opt. llama.cpp does not know it.

#include "models/activation_names.h"
#include "models/decoder_reader.h"

namespace mainstem {
namespace {

constexpr int64_t kPositionOffset = 2;

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.hidden_key = "ffn_dim",
                                          .kv_heads_key = "",
                                          .head_width_key = "",
                                          .vocab = 50272,
                                          .width = 768,
                                          .hidden = 3072,
                                          .blocks = 12,
                                          .heads = 12,
                                          .context = 2048});
  BlockSpec& block = decoder.block;
  const bool bias = config.bool_or("enable_bias", true);
  const bool norm_first = config.bool_or("do_layer_norm_before", true);
  block.norm = {.kind = NormKind::kLayer, .eps = 1e-5, .bias = true};
  if (!config.bool_or("layer_norm_elementwise_affine", true)) {
    block.norm.weight = block.norm.bias = false;
  }
  block.placement = norm_first ? NormPlacement::kPre : NormPlacement::kPost;
  set_attention_bias(block.attention, bias);
  block.mlp.gated = false;
  block.mlp.up_bias = block.mlp.down_bias = bias;
  block.mlp.activation = read_activation(config, "activation_function", "relu");
  read_head(config, decoder.head, true, has_tensor);
  const int64_t embed_width = config.int_or("word_embed_proj_dim", decoder.width);
  if (embed_width != decoder.width && decoder.head.kind != HeadKind::kNone) {
    decoder.head.projection_width = embed_width;
  }
  ModelSpec spec = decoder_spec(decoder);
  spec.stack.embed_width = embed_width;
  spec.stack.positions = PositionKind::kLearned;
  spec.stack.position_rows = decoder.context + kPositionOffset;
  spec.stack.position_offset = kPositionOffset;
  if (embed_width == decoder.width && has_tensor("model.decoder.project_out.weight")) {
    config.fail("word_embed_proj_dim", "the width of the embeddings, since a project_out is there");
  }
  const bool removed = config.bool_or("_remove_final_layer_norm", false);
  if (!norm_first || removed) spec.stack.final_norm.reset();
  config.ignore({"dropout", "layerdrop", "init_std", "activation_dropout"});
  return spec;
}

}  // namespace

Family opt_family() {
  return {
      .name = "opt",
      .model_types = {"opt"},
      .read_config = read_config,
      .rows =
          {
              {"token_embed", "model.decoder.embed_tokens", ""},
              {"pos_embed", "model.decoder.embed_positions", ""},
              {"embed_in", "model.decoder.project_in", ""},
              {"blocks.{N}.attn_norm", "model.decoder.layers.{N}.self_attn_layer_norm", ""},
              {"blocks.{N}.q", "model.decoder.layers.{N}.self_attn.q_proj", ""},
              {"blocks.{N}.k", "model.decoder.layers.{N}.self_attn.k_proj", ""},
              {"blocks.{N}.v", "model.decoder.layers.{N}.self_attn.v_proj", ""},
              {"blocks.{N}.attn_proj", "model.decoder.layers.{N}.self_attn.out_proj", ""},
              {"blocks.{N}.attn_post_norm", "model.decoder.layers.{N}.self_attn_layer_norm", ""},
              {"blocks.{N}.mlp_norm", "model.decoder.layers.{N}.final_layer_norm", ""},
              {"blocks.{N}.mlp_pre", "model.decoder.layers.{N}.fc1", ""},
              {"blocks.{N}.mlp_proj", "model.decoder.layers.{N}.fc2", ""},
              {"blocks.{N}.mlp_post_norm", "model.decoder.layers.{N}.final_layer_norm", ""},
              {"final_norm", "model.decoder.final_layer_norm", ""},
              {"head_proj", "model.decoder.project_out", ""},
              {"head", "lm_head", ""},
          },
      .prefixes = {"model.decoder.", "decoder.", ""},
      // Without a head (OPTModel) the last value is the stream's, before this projection.
      .ignored_tensors = {"*decoder.project_out.weight"},
  };
}

}  // namespace mainstem
