#pragma once

#include "diagnose/causes/place.h"

namespace mainstem::causes {

/// When a half-precision norm casts back to its own type.
enum class CastOrder : uint8_t {
  kNone,
  kBeforeWeight,  ///< round(x̂) · w
  kAfterWeight,   ///< round(x̂ · w)
};

/// A norm in a form that NormParams cannot say. It keeps its own copy of weight and bias.
struct NormRow {
  NormSpec norm;
  int64_t group = 0;         ///< channels normalised together
  bool eps_outside = false;  ///< (x - mean) / (sqrt(var) + eps)
  bool unbiased = false;     ///< divides the squares by n - 1
  CastOrder cast = CastOrder::kNone;
  DType cast_to = DType::kBF16;
  std::vector<double> weight = {}, bias = {};  ///< repeated over the row where they are shorter
};
CustomParams custom_norm(std::string note, NormRow row);
double rounded_to(DType dtype, double value);

/// Makes the norms run as NormRows, after a change of each.
Change change_norm_rows(const Place& place, const std::vector<ValueId>& norms, std::string note,
                        std::function<void(NormRow&)> change);

}  // namespace mainstem::causes
