#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <string>

namespace mainstem {

/// A number as the user reads it; without `format` the shortest decimal that restores it. What is
/// not finite is "nan", "inf" or "-inf": a NaN's sign, which says nothing, is left out.
///
///     number_text(0.1F);              // "0.1"
///     number_text(-0.5, "{:.1e}");    // "-5.0e-01"
///     number_text(-std::nan(""));     // "nan"
template <std::floating_point Float>
std::string number_text(Float number, fmt::format_string<Float> format = "{}") {
  return fmt::format(format, std::isnan(number) ? std::fabs(number) : number);
}

}  // namespace mainstem
