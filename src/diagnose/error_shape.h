#pragma once

#include <span>
#include <string>

#include "diagnose/align.h"
#include "diagnose/measure.h"

namespace mainstem {

/// What an error looks like, in a sentence: a constant, one factor, the same values in other
/// places, one head, from one token on, ….
std::string error_shape(const AlignedValue& value, const Compared& compared,
                        std::span<const double> made, double envelope);

}  // namespace mainstem
