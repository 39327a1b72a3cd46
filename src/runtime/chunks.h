#pragma once

#include <cstdint>

#include "mainstem/program.h"

namespace mainstem {

/// Whether a prompt that ends at position `end` may go through in parts: no row sees later ones,
/// and no angle depends on how long the whole is.
bool can_chunk(const Program& program, int64_t end);

}  // namespace mainstem
