#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

// Every tolerance of the tests of programs and sessions comes from here.

namespace mainstem::bounds {

/// Rounding error of one element that was made in one step from given inputs: a sum of `terms`
/// terms whose absolute values add up to `magnitude`, in any order, with a handful of roundings
/// around it. The error of a sum grows like the square root of its length (Higham & Mary,
/// doi:10.1137/18M1226312); the factors leave room for the tail.
inline double one_step(double epsilon, int64_t terms, double magnitude) {
  return epsilon * (6 + 4 * std::sqrt(static_cast<double>(terms))) * magnitude +
         std::numeric_limits<float>::denorm_min() * (epsilon > 1e-10 ? 1 : 0);
}

/// Difference, as a part of the largest value of a tensor, between two forwards that round alike:
/// every block amplifies what came in and adds its own. `blocks` counts both stacks.
inline double end_to_end(double epsilon, int64_t blocks) {
  return epsilon * 300 * std::pow(2.5, static_cast<double>(blocks));
}

/// The same where the inputs of products are rounded to 8 bits of their block's largest value:
/// half a step of 1/127, through the products of a block one after the other and its softmax.
inline double rounded_inputs(int64_t blocks) {
  return 10 * (0.5 / 127) * static_cast<double>(blocks);
}

}  // namespace mainstem::bounds
