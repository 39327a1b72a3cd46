// OLMo 1: Llama's block with a LayerNorm that has neither weight nor bias. Source of the rules:
// transformers 5.24 models/olmo.

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.vocab = 50304});
  BlockSpec& block = decoder.block;
  block.norm = {.kind = NormKind::kLayer, .eps = 1e-5, .weight = false};
  set_attention_bias(block.attention, config.bool_or("attention_bias", false));
  block.attention.rotary =
      read_rotary(config, block.attention.head_width, {.base = 10000, .context = decoder.context});
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  if (config.get_number("clip_qkv")) config.fail("clip_qkv", "null (no clipping of q, k and v)");
  read_head(config, decoder.head, false, has_tensor);
  config.ignore({"partial_rotary_factor"});
  return decoder_spec(decoder);
}

}  // namespace

Family olmo_family() {
  return {
      .name = "olmo",
      .model_types = {"olmo"},
      .read_config = read_config,
      .rows = llama_rows(),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
