// OLMo 2: norms on what the sub-layers give and none before them, and a norm over the whole of q
// and of k. Source of the rules: transformers 5.24 models/olmo2, llama.cpp arch "olmo2".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

ModelSpec olmo2_spec(Decoder decoder) {
  decoder.block.placement = NormPlacement::kOutputOnly;
  decoder.block.attention.qk_norm =
      QkNormSpec{.scope = QkNormScope::kWhole, .norm = decoder.block.norm};
  return decoder_spec(decoder);
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.vocab = 50304});
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(config, 1e-5);
  set_attention_bias(block.attention, config.bool_or("attention_bias", false));
  block.attention.rotary =
      read_rotary(config, block.attention.head_width, {.base = 10000, .context = decoder.context});
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  read_head(config, decoder.head, false, has_tensor);
  config.ignore({"partial_rotary_factor"});
  return olmo2_spec(decoder);
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = rms_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  return olmo2_spec(decoder);
}

}  // namespace

Family olmo2_family() {
  return {
      .name = "olmo2",
      .model_types = {"olmo2"},
      .gguf_archs = {"olmo2"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = sandwich_rows(),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
