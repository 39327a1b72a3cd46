#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mainstem/spec.h"

namespace mainstem {

/// Angle per position of each of the width/2 pairs, and what cosine and sine are multiplied by.
struct RotaryFrequencies {
  std::vector<double> frequency;
  double attention_factor = 1;
};

/// Whether the angles of a position depend on how long the whole is: dynamic scaling and longrope.
bool goes_by_length(const RotarySpec& spec);

/// `longest` is the longest position so far plus one, for scalings that go by length.
/// Formulas: transformers 5.24 modeling_rope_utils.
RotaryFrequencies rotary_frequencies(const RotarySpec& spec, int64_t longest);

}  // namespace mainstem
