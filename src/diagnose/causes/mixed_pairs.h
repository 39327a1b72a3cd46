#pragma once

#include "mainstem/program.h"

namespace mainstem::causes {

/// The rotation that makes `rotated` turns the pairs of the form `turns`, each channel by the angle
/// that it has in the other form.
void mix_pairs(Program& program, ValueId rotated, RotaryPairing turns);

}  // namespace mainstem::causes
