// GPT-3 style: GPT-2's block, where every other block attends to a band of keys ("alternating
// dense and locally banded sparse attention patterns", Brown et al., arXiv:2005.14165 §2.1). The
// band's width was not published: `band_width` in the config chooses one, and without it every
// block is dense. The other words and all names are GPT-2's.

#include "models/gpt2_reader.h"

namespace mainstem {
namespace {

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  ModelSpec spec = read_gpt2(config, has_tensor);
  const auto band = config.get_int("band_width");
  if (!band) return spec;
  if (*band < 1) config.fail("band_width", "1 or more, or null for dense blocks alone");
  for (size_t n = 1; n < spec.stack.blocks.size(); n += 2) {
    set_window(spec.stack.blocks[n].attention, *band);
  }
  return spec;
}

}  // namespace

Family gpt3_family() {
  return {
      .name = "gpt3",
      .model_types = {"gpt3"},
      .read_config = read_config,
      .rows = gpt2_rows(),
      .prefixes = {"transformer.", ""},
      .ignored_tensors = {"*.attn.bias", "*.attn.masked_bias"},
  };
}

}  // namespace mainstem
