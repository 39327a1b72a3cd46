#pragma once

#include <span>
#include <string>

#include "diagnose/judge.h"

namespace mainstem {

/// What an error looks like, in a sentence: a constant, one factor, the same values in other
/// places, one head, from one token on, …. Of a sum whose error shows nothing, that of what is
/// added to the dump's own stream. `made`: what the reference makes there.
std::string error_shape(const Judge& judge, const AlignedValue& value, std::span<const double> made,
                        double envelope);

}  // namespace mainstem
