// Phi-1, 1.5 and 2: attention and MLP side by side through one norm, biases everywhere, part of
// the channels turned. Source of the rules: transformers 5.24 models/phi, llama.cpp arch "phi2".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec phi_spec(Decoder decoder) {
  BlockSpec& block = decoder.block;
  block.residual = ResidualForm::kParallelSharedNorm;
  set_attention_bias(block.attention, true);
  block.mlp.gated = false;
  block.mlp.up_bias = block.mlp.down_bias = true;
  decoder.head.bias = true;
  return decoder_spec(decoder);
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(
      config,
      {.vocab = 51200, .width = 2048, .hidden = 8192, .blocks = 24, .heads = 32, .context = 2048});
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(config, "layer_norm_eps");
  if (config.bool_or("qk_layernorm", false)) {
    block.attention.qk_norm = QkNormSpec{.norm = block.norm};
  }
  block.attention.rotary = read_rotary(config, block.attention.head_width,
                                       {.base = 10000, .context = decoder.context, .share = 0.5});
  block.mlp.activation = read_activation(config, "hidden_act", "gelu_new");
  read_head(config, decoder.head, false, has_tensor);
  config.ignore({"embd_pdrop", "resid_pdrop"});
  return phi_spec(decoder);
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  block.mlp.activation = Activation::kGeluTanh;
  return phi_spec(decoder);
}

}  // namespace

Family phi_family() {
  return {
      .name = "phi",
      .model_types = {"phi"},
      .gguf_archs = {"phi2"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = with_rows(
          llama_rows(),
          {
              {"blocks.{N}.attn_proj", "model.layers.{N}.self_attn.dense", "blk.{N}.attn_output"},
              {"blocks.{N}.q_norm", "model.layers.{N}.self_attn.q_layernorm", ""},
              {"blocks.{N}.k_norm", "model.layers.{N}.self_attn.k_layernorm", ""},
              {"blocks.{N}.mlp_pre", "model.layers.{N}.mlp.fc1", "blk.{N}.ffn_up"},
              {"blocks.{N}.mlp_proj", "model.layers.{N}.mlp.fc2", "blk.{N}.ffn_down"},
              {"final_norm", "model.final_layernorm", "output_norm"},
          }),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
