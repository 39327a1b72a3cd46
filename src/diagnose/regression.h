#pragma once

#include <cstddef>
#include <vector>

#include "diagnose/judge.h"

// What differs between a dump and the reference, fitted by what a mistake would change.

namespace mainstem {

/// What is left of a dump's values beside the reference (y − f), fitted by what a mistake would
/// change (f̃ − f), each in units in the last place.
struct Regression {
  double residual_change = 0;  ///< Σ (y − f)(f̃ − f)
  double change_change = 0;    ///< Σ (f̃ − f)²
  double residual_residual = 0;
  size_t count = 0;
  /// Of the sums r and c of the first two over each row: Σ r², Σ r c, Σ c². Errors of one row hang
  /// together: a norm's factor, say, is rounded once for all of it.
  double rows_rr = 0, rows_rc = 0, rows_cc = 0;

  void add(const Regression& other);
  double coefficient() const;  ///< 1 where the mistake was made, 0 where not
  /// Its standard deviation by what the fit leaves, value by value or row by row: the larger one.
  double deviation() const;
  /// The part of residual_residual that the change accounts for, at the best coefficient.
  double explained() const;
  double variance() const;  ///< of one value, by what the fit leaves
  /// Beyond chance, and as large as the mistake makes it.
  bool shows() const;
};

/// A step of the dump beside the reference, with what the regressions of many mistakes have in
/// common. Both must outlive it.
class StepResidual {
 public:
  StepResidual(Judge& judge, const AlignedValue& value);
  /// Safe to be called from several threads.
  Regression beside(const Edited& edited) const;

 private:
  std::vector<double> made_by(const Replay& replay) const;

  Judge& judge_;
  const AlignedValue& value_;
  std::vector<double> right_;
  double smallest_;
};

}  // namespace mainstem
