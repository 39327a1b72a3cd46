#include "diagnose/known_faults.h"

#include <algorithm>
#include <array>

namespace mainstem {
namespace {

constexpr std::array<std::string_view, 1> kFalcon{"falcon"};
constexpr std::array<std::string_view, 2> kCohere{"cohere", "cohere2"};
constexpr std::array<std::string_view, 1> kGemma3{"gemma3"};
constexpr std::array<std::string_view, 1> kMistral{"mistral"};

constexpr KnownFault kFaults[] = {
    {"attn.position_bias", "the position bias is added twice", kFalcon,
     "transformers up to 5.24, Falcon with ALiBi in eager attention (output_attentions asks for "
     "it): "
     "the bias stands in the mask and is added to the scores as well; sdpa adds it once"},
    {"rope.pairing", "halves turn, by the angles of an interleaved layout", kCohere,
     "TransformerLens 3.9 (bridge), Cohere and Cohere 2: cosine and sine are laid out for "
     "neighbours, and halves are rotated"},
    {"attn.softcap", "no soft cap", kGemma3,
     "transformers up to 5.24, Gemma 3: attn_logit_softcapping is stored and never applied"},
    {"mlp.activation",
     "gelu-tanh by a half-precision table",
     {},
     "llama.cpp on CPU, every model with GELU: f16(gelu-tanh(f16(x))), also where the model asks "
     "for "
     "the erf form"},
    {"attn.window", "no window", kMistral,
     "llama.cpp, Mistral: its GGUF files cannot name the window, so every key is seen"},
    {"rope.scaling",
     "each token keeps the frequencies of the length at its own time",
     {},
     "transformers up to 5.24 with a cache: keys are cached after the rotation, and those of "
     "dynamic and longrope scaling are not turned again when the frequencies change"},
};

}  // namespace

std::span<const KnownFault> known_faults() { return kFaults; }

std::string_view known_fault(std::string_view cause, std::string_view yours,
                             std::string_view family) {
  for (const KnownFault& fault : kFaults) {
    if (fault.cause != cause || !yours.starts_with(fault.yours)) continue;
    const bool fits =
        family.empty() || fault.families.empty() ||
        std::find(fault.families.begin(), fault.families.end(), family) != fault.families.end();
    if (fits) return fault.what;
  }
  return {};
}

}  // namespace mainstem
