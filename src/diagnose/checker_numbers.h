#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "base/number_text.h"

namespace mainstem {

// Relative differences that the order of sums can make: eps times what a step, or a pass through
// a deep model, amplifies. Mistakes are orders of magnitude above.
inline constexpr double kStepSlack = 4096 * std::numeric_limits<double>::epsilon();
inline constexpr double kPassSlack = 0x1p22 * std::numeric_limits<double>::epsilon();
inline constexpr double kFloatPassSlack = 4096 * double{std::numeric_limits<float>::epsilon()};

/// ‖a − b‖₂ / ‖b‖₂; 0 for equal values, infinite where b is zero and a is not.
inline double distance(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (difference == 0) return 0;
  return norm == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(difference / norm);
}

inline bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

/// The larger of two differences; a NaN stays for good.
inline double larger(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

/// A difference as findings print it.
inline std::string to_text(double difference) { return number_text(difference, "{:.1e}"); }

}  // namespace mainstem
