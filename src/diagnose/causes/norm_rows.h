#pragma once

#include "diagnose/causes/place.h"

namespace mainstem::causes {

/// When a half-precision norm casts back to its own type.
enum class CastOrder : uint8_t {
  kNone,
  kBeforeWeight,  ///< round(x̂) · w
  kAfterWeight,   ///< round(x̂ · w)
};

/// A norm in a form that NormParams cannot say.
struct NormRow {
  NormSpec norm;
  int64_t group = 0;         ///< channels normalised together
  bool eps_outside = false;  ///< (x - mean) / (sqrt(var) + eps)
  bool unbiased = false;     ///< divides the squares by n - 1
  double exponent = 0.5;     ///< of var + eps
  CastOrder cast = CastOrder::kNone;
  DType cast_to = DType::kBF16;
};
double rounded_to(DType dtype, double value);

/// Makes the norms run as NormRows, after a change of each.
Change change_norm_rows(std::vector<ValueId> norms, std::string note,
                        std::function<void(NormRow&)> change);

}  // namespace mainstem::causes
