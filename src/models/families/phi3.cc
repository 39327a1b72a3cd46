// Phi-3 and Phi-4 mini: Llama's block with q, k, v in one matrix and gate and value in another.
// Source of the rules: transformers 5.24 models/phi3, llama.cpp arch "phi3".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(
      config,
      {.vocab = 32064, .width = 3072, .hidden = 8192, .blocks = 32, .heads = 32, .context = 4096});
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(config, 1e-5);
  block.attention.rotary = read_rotary(config, block.attention.head_width,
                                       {.base = 10000, .context = decoder.context, .share = 1});
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  if (const auto window = config.get_int("sliding_window")) set_window(block.attention, *window);
  read_head(config, decoder.head, false, has_tensor);
  config.ignore({"embd_pdrop", "resid_pdrop", "attention_bias"});
  return decoder_spec(decoder);
}

/// ffn_up holds gate and value. A window of 0 is how the converter says that there is none;
/// llama.cpp has windows switched off in this arch, here they are as the model was trained.
ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  const int64_t window = words.get_int("attention.sliding_window").value_or(0);
  if (window != 0) set_window(block.attention, window);
  return decoder_spec(decoder);
}

}  // namespace

Family phi3_family() {
  constexpr Layout kQkv{.rows = RowLayout::kQkv};
  constexpr Layout kGateValue{.rows = RowLayout::kGateValue};
  constexpr auto kFused = "model.layers.{N}.self_attn.qkv_proj";
  constexpr auto kUp = "model.layers.{N}.mlp.gate_up_proj";
  return {
      .name = "phi3",
      .model_types = {"phi3"},
      .gguf_archs = {"phi3"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = with_rows(llama_rows(),
                        {
                            {"blocks.{N}.q", kFused, "blk.{N}.attn_qkv", kQkv, kQkv},
                            {"blocks.{N}.k", kFused, "blk.{N}.attn_qkv", kQkv, kQkv},
                            {"blocks.{N}.v", kFused, "blk.{N}.attn_qkv", kQkv, kQkv},
                            {"blocks.{N}.mlp_gate", kUp, "blk.{N}.ffn_up", kGateValue, kGateValue},
                            {"blocks.{N}.mlp_value", kUp, "blk.{N}.ffn_up", kGateValue, kGateValue},
                        }),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
