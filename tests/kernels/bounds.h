#pragma once

// Error bounds of float32 kernels, as functions of the rounding unit, the number of operations and
// the magnitudes; and the comparator that applies them. No test types a tolerance by hand.

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>

namespace mainstem::test {

/// Half the distance from 1 to the next float32: the relative error of one rounding.
inline constexpr double kUnit = 0x1p-24;
/// Absolute error of one rounding near zero (denormals).
inline constexpr double kTiny = 0x1p-149;

/// Relative error of n roundings in a row (Higham, Accuracy and Stability, section 3.1).
inline double gamma(double n) { return n * kUnit / (1 - n * kUnit); }

/// A sum of n products computed in any order, then `more` operations on the result:
/// `magnitude` is the sum of the absolute products.
inline double dot_bound(double n, double magnitude, double more = 0) {
  return gamma(n + 1 + more) * magnitude + (n + more) * kTiny;
}

/// An elementary function: so many units in the last place of the result, and the error that a
/// relative error of `argument_units` of the argument causes: |x f'(x)|.
inline double function_bound(double value, double units, double sensitivity = 0,
                             double argument_units = 0) {
  return (units * std::fabs(value) + argument_units * std::fabs(sensitivity)) * 2 * kUnit +
         units * kTiny;
}

struct Comparison {
  bool pass = true;
  size_t worst = 0;  ///< index of the largest diff / bound, or of the first that is not finite
  double worst_ratio = 0;  ///< of diff and bound
  size_t failures = 0;
  std::string text;
};

/// Element by element: passes where |got - expected| <= bound. Anything that is not a number on
/// either side therefore fails; so does a difference in length.
template <typename Got>
Comparison compare(std::span<const Got> got, std::span<const double> expected,
                   std::span<const double> bound) {
  Comparison c;
  if (got.size() != expected.size() || got.size() != bound.size()) {
    c.pass = false;
    c.text = "lengths differ";
    return c;
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const double diff = std::fabs(static_cast<double>(got[i]) - expected[i]);
    const bool good = diff <= bound[i];
    double ratio = diff == 0 && good ? 0 : diff / bound[i];
    if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
    if (!good) {
      ++c.failures;
      c.pass = false;
    }
    if (ratio > c.worst_ratio) {
      c.worst_ratio = ratio;
      c.worst = i;
    }
  }
  if (!c.pass) {
    c.text = std::to_string(c.failures) + " of " + std::to_string(got.size()) +
             " too far; worst at " + std::to_string(c.worst) + ": got " +
             std::to_string(static_cast<double>(got[c.worst])) + ", expected " +
             std::to_string(expected[c.worst]) + ", bound " + std::to_string(bound[c.worst]) +
             ", diff/bound " + std::to_string(c.worst_ratio);
  }
  return c;
}

}  // namespace mainstem::test
