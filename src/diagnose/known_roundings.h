#pragma once

#include <vector>

#include "diagnose/diff_model.h"
#include "mainstem/doctor.h"

namespace mainstem {

/// Roundings that one well-known implementation alone has and that its type's envelope allows, so
/// that no step is wrong by them: llama.cpp's table of GELU in float16. They are told by what the
/// dump has on both sides of an element-wise step, even where that is a few printed numbers.
std::vector<Cause> known_roundings(JudgedDump& judged, const DiffOptions& options);

}  // namespace mainstem
