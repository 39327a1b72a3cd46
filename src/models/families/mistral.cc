// Mistral 7B and what uses the same block. The window, where there is one, is on every block.
// Source of the rules: transformers 5.24 models/mistral; llama.cpp stores it under arch "llama",
// which cannot say the window.

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.hidden = 14336, .context = 4096 * 32, .kv_heads = 8});
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(config, 1e-6);
  block.attention.rotary =
      read_rotary(config, block.attention.head_width, {.base = 10000, .context = decoder.context});
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  if (!config.is_null("sliding_window")) {
    set_window(block.attention, config.int_or("sliding_window", 4096));
  }
  read_head(config, decoder.head, false, has_tensor);
  config.ignore({"partial_rotary_factor", "layer_types"});
  return decoder_spec(decoder);
}

}  // namespace

Family mistral_family() {
  return {
      .name = "mistral",
      .model_types = {"mistral"},
      .read_config = read_config,
      .rows = llama_rows(),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
