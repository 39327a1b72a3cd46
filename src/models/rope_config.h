#pragma once

#include <cstdint>
#include <optional>

#include "mainstem/spec.h"
#include "models/config_reader.h"
#include "models/gguf_words.h"

namespace mainstem {

/// What a family's config class says of rotary positions where the file says nothing.
struct RotaryWords {
  double base = 10000;
  int64_t context = 0;  ///< max_position_embeddings
  /// Of the head's channels that turn, unless partial_rotary_factor says another; empty: all of
  /// them, whatever it says.
  std::optional<double> share = std::nullopt;
  /// rope_theta and partial_rotary_factor count inside the record alone.
  bool record_only = false;
};

/// Rotary positions from config.json: rope_theta with rope_scaling (old form) or rope_parameters
/// (new form); a non-empty rope_scaling wins. Source: transformers 5.24 modeling_rope_utils.
RotarySpec read_rotary(ConfigReader& config, int64_t head_width, const RotaryWords& words);

/// One record {rope_type, rope_theta, factor, …} over what `rotary` says already.
RotarySpec read_rotary_record(ConfigReader& rope, RotarySpec rotary, int64_t context,
                              std::optional<int64_t> outer_original = std::nullopt);

/// Error unless longrope's lists have a divisor for each pair; a spec copies them into every block.
void check_divisors(const ConfigReader& config, const RotarySpec& rotary);

/// From "ARCH.rope.*", and divisors from rope_freqs.weight or rope_factors_{short,long}.weight.
RotarySpec read_rotary(GgufWords& words, int64_t head_width, int64_t context);

}  // namespace mainstem
