// GPT-J: attention and MLP side by side through one norm, neighbouring channels turned. Source of
// the rules: transformers 5.24 models/gptj. llama.cpp does not know it.

#include "models/activation_names.h"
#include "models/decoder_reader.h"

namespace mainstem {
namespace {

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.width_key = "n_embd|hidden_size",
                                          .hidden_key = "n_inner",
                                          .blocks_key = "n_layer|num_hidden_layers",
                                          .heads_key = "n_head|num_attention_heads",
                                          .kv_heads_key = "",
                                          .head_width_key = "",
                                          .context_key = "n_positions|max_position_embeddings",
                                          .vocab = 50400,
                                          .width = 4096,
                                          .hidden = 0,
                                          .blocks = 28,
                                          .heads = 16,
                                          .context = 2048});
  BlockSpec& block = decoder.block;
  if (block.mlp.hidden == 0) block.mlp.hidden = 4 * decoder.width;
  block.norm = layer_norm(config, "layer_norm_epsilon");
  block.residual = ResidualForm::kParallelSharedNorm;
  RotarySpec rotary;
  rotary.pairing = RotaryPairing::kInterleaved;
  rotary.width =
      config.is_null("rotary_dim") ? block.attention.head_width : config.int_or("rotary_dim", 64);
  block.attention.rotary = rotary;
  block.mlp.gated = false;
  block.mlp.up_bias = block.mlp.down_bias = true;
  block.mlp.activation = read_activation(config, "activation_function", "gelu_new");
  decoder.head.bias = true;
  read_head(config, decoder.head, false, has_tensor);
  config.ignore({"n_ctx", "attn_pdrop", "gradient_checkpointing", "rotary", "scale_attn_weights",
                 "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj"});
  return decoder_spec(decoder);
}

}  // namespace

Family gptj_family() {
  return {
      .name = "gptj",
      .model_types = {"gptj"},
      .read_config = read_config,
      .rows =
          {
              {"token_embed", "transformer.wte", ""},
              {"blocks.{N}.attn_norm", "transformer.h.{N}.ln_1", ""},
              {"blocks.{N}.q", "transformer.h.{N}.attn.q_proj", ""},
              {"blocks.{N}.k", "transformer.h.{N}.attn.k_proj", ""},
              {"blocks.{N}.v", "transformer.h.{N}.attn.v_proj", ""},
              {"blocks.{N}.attn_proj", "transformer.h.{N}.attn.out_proj", ""},
              {"blocks.{N}.mlp_pre", "transformer.h.{N}.mlp.fc_in", ""},
              {"blocks.{N}.mlp_proj", "transformer.h.{N}.mlp.fc_out", ""},
              {"final_norm", "transformer.ln_f", ""},
              {"head", "lm_head", ""},
          },
      .prefixes = {"transformer.", ""},
      .ignored_tensors = {"*.attn.bias", "*.attn.masked_bias", "*.attn.embed_positions"},
  };
}

}  // namespace mainstem
