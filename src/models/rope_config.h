#pragma once

#include "mainstem/spec.h"
#include "models/config_reader.h"

namespace mainstem {

/// Reads base and scaling of rotary positions in the old form (rope_theta, rope_scaling) and the
/// new one (rope_parameters); precedence as transformers 5.24. `width` and pairing are the
/// family's; `context` is max_position_embeddings.
RotarySpec read_rotary(ConfigReader& config, int64_t width, double default_base, int64_t context);

}  // namespace mainstem
