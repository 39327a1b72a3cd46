// OLMo 1: Llama's block with a LayerNorm that has neither weight nor bias. Source of the rules:
// transformers 5.24 models/olmo, llama.cpp's writer and loader of arch "olmo".

#include "base/number_text.h"
#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

constexpr NormSpec kNorm = {.kind = NormKind::kLayer, .eps = 1e-5, .weight = false};

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.vocab = 50304});
  BlockSpec& block = decoder.block;
  block.norm = kNorm;
  set_attention_bias(block.attention, config.bool_or("attention_bias", false));
  block.attention.rotary =
      read_rotary(config, block.attention.head_width, {.base = 10000, .context = decoder.context});
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  if (config.get_number("clip_qkv")) config.fail("clip_qkv", "null (no clipping of q, k and v)");
  read_head(config, decoder.head, false, has_tensor);
  config.ignore({"partial_rotary_factor"});
  return decoder_spec(decoder);
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = kNorm;
  block.norm.eps = words.need_number("attention.layer_norm_epsilon");
  // The converter permutes no biases and the loader knows none: they would be left over.
  set_attention_bias(block.attention, false);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  const double clip = words.get_number("attention.clamp_kqv").value_or(0);
  if (clip != 0) {
    words.fail("attention.clamp_kqv", "0 (no clipping of q, k and v)", number_text(clip, "{:g}"));
  }
  return decoder_spec(decoder);
}

}  // namespace

Family olmo_family() {
  return {
      .name = "olmo",
      .model_types = {"olmo"},
      .gguf_archs = {"olmo"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = llama_rows({.rows = RowLayout::kPairs}),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
