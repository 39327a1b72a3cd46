#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mainstem/spec.h"

namespace mainstem {

/// A published model as its config says it, without weights.
struct Preset {
  std::string name;    ///< "llama-3-8b"
  std::string family;  ///< "llama", as Model::family()
  std::string source;  ///< where the numbers were published
  std::string note;    ///< what is not known or differs between sources; may be empty
  ModelSpec spec;
};

/// "gpt2", "llama-3-8b", …, family by family.
std::vector<std::string> preset_names();

/// Built by the family's own config reader. `norm` ("layer" or "rms") chooses where a family's
/// sources disagree (PaLM); empty: the default. Errors (usage): an unknown name, which lists the
/// known ones; a norm for a family that leaves no choice.
Preset find_preset(std::string_view name, std::string_view norm = {});

}  // namespace mainstem
