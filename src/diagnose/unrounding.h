#pragma once

#include "diagnose/align.h"
#include "diagnose/replay.h"
#include "mainstem/arithmetic.h"

namespace mainstem {

/// Values of a dump that are stored with less than was computed with, and numbers that may have
/// been rounded to them: a sound step may have read those.
class Unrounding {
 public:
  Unrounding(const Aligned& aligned, ArithmeticType arithmetic);

  static constexpr int kVariants = 6;
  /// Numbers before rounding, others in each variant; null: the value is as it was.
  ChangeOfValue before(const AlignedValue& value, int variant) const;
  bool empty() const { return empty_; }  ///< no value is stored so

 private:
  ArithmeticType arithmetic_;
  bool empty_;
};

/// The number as the type stores it.
double stored_in(ArithmeticType type, double number);
/// Is the value of that type in the file, or do all its numbers lie on the type's grid? Much is
/// widened before it is written.
bool is_stored_in(ArithmeticType type, const AlignedValue& value);

}  // namespace mainstem
