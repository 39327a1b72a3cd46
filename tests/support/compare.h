#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <gtest/gtest.h>

namespace mainstem::testing {

/// Allowed difference of element i.
using BoundOf = std::function<double(size_t)>;

/// Element by element: |got - want| <= bound, stated positively, so that a NaN never passes by
/// accident. NaN is wanted only where the reference is NaN, an infinity only with the same sign.
/// Different sizes and empty tensors fail: nothing compared is nothing shown.
::testing::AssertionResult close(std::span<const double> got, std::span<const double> want,
                                 const BoundOf& bound);

/// The same with one bound: a part of the largest finite value of `want`.
::testing::AssertionResult close(std::span<const double> got, std::span<const double> want,
                                 double relative);

/// Equal bit for bit: signs of zeros and of NaN count.
::testing::AssertionResult same_bits(std::span<const double> got, std::span<const double> want);
::testing::AssertionResult same_bits(std::span<const float> got, std::span<const float> want);

/// Shapes, as the failure text shows them.
::testing::AssertionResult same_shape(std::span<const int64_t> got, std::span<const int64_t> want);

}  // namespace mainstem::testing
