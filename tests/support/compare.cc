#include "support/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

namespace mainstem::testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

bool fits(double got, double want, double bound) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= bound && std::isfinite(got);
}

AssertionResult sizes(size_t got, size_t want) {
  if (got != want) return AssertionFailure() << got << " values, wanted " << want;
  if (want == 0) return AssertionFailure() << "nothing to compare";
  return AssertionSuccess();
}

template <typename T>
AssertionResult bits(std::span<const T> got, std::span<const T> want) {
  if (AssertionResult result = sizes(got.size(), want.size()); !result) return result;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], sizeof(T)) == 0) continue;
    std::ostringstream text;
    text.precision(17);
    text << "element " << i << ": got " << got[i] << ", wanted the bits of " << want[i];
    return AssertionFailure() << text.str();
  }
  return AssertionSuccess();
}

}  // namespace

AssertionResult close(std::span<const double> got, std::span<const double> want,
                      const BoundOf& bound) {
  if (AssertionResult result = sizes(got.size(), want.size()); !result) return result;
  size_t misses = 0;
  size_t worst = 0;
  double worst_ratio = -1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double allowed = bound(i);
    if (fits(got[i], want[i], allowed)) continue;
    ++misses;
    const double difference = std::abs(got[i] - want[i]);
    const double ratio = std::isfinite(difference) ? difference / allowed : INFINITY;
    if (ratio > worst_ratio || misses == 1) {
      worst = i;
      worst_ratio = ratio;
    }
  }
  if (misses == 0) return AssertionSuccess();
  std::ostringstream text;
  text.precision(17);
  text << misses << " of " << got.size() << " values differ; worst at " << worst << ": got "
       << got[worst] << ", wanted " << want[worst] << " within " << bound(worst) << " (off by "
       << worst_ratio << " bounds)";
  return AssertionFailure() << text.str();
}

AssertionResult close(std::span<const double> got, std::span<const double> want, double relative) {
  double largest = 0;
  for (double value : want) {
    if (std::isfinite(value)) largest = std::fmax(largest, std::abs(value));
  }
  return close(got, want, [&](size_t) { return relative * largest; });
}

AssertionResult same_bits(std::span<const double> got, std::span<const double> want) {
  return bits(got, want);
}
AssertionResult same_bits(std::span<const float> got, std::span<const float> want) {
  return bits(got, want);
}

AssertionResult same_shape(std::span<const int64_t> got, std::span<const int64_t> want) {
  if (std::equal(got.begin(), got.end(), want.begin(), want.end())) return AssertionSuccess();
  const auto text = [](std::span<const int64_t> shape) {
    std::ostringstream out;
    for (int64_t dim : shape) out << ' ' << dim;
    return out.str();
  };
  return AssertionFailure() << "shape" << text(got) << ", wanted" << text(want);
}

}  // namespace mainstem::testing
