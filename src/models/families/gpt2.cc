// GPT-2: learned positions, LayerNorm, q, k and v in one matrix that lies [in, out]. Source of the
// rules: transformers 5.24 models/gpt2, llama.cpp arch "gpt2".

#include "models/gpt2_reader.h"

namespace mainstem {
namespace {

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  decoder.block.norm = layer_norm(words);
  decoder.block.mlp.activation = Activation::kGeluTanh;
  return gpt2_spec(decoder, words.need_int("context_length"));
}

}  // namespace

Family gpt2_family() {
  return {
      .name = "gpt2",
      .model_types = {"gpt2"},
      .gguf_archs = {"gpt2"},
      .read_config = read_gpt2,
      .read_gguf = read_gguf,
      .rows = gpt2_rows(),
      .prefixes = {"transformer.", ""},
      .ignored_tensors = {"*.attn.bias", "*.attn.masked_bias"},
  };
}

}  // namespace mainstem
