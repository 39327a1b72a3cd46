#pragma once

#include <cstddef>
#include <vector>

#include "diagnose/doctor_trials.h"

// Mistakes smaller than the round-off of 16-bit types: one value tells nothing, all of them do.

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

/// A mistake that a regression found, with the steps that it is in.
struct SmallMistake {
  std::vector<size_t> steps;
  std::vector<const Form*> forms;  ///< the mistake at each of them
  Regression regression;           ///< over all of them
  /// Mistakes with a number to choose that account for as much: nothing tells them apart.
  std::vector<const Form*> rivals = {};
};

/// Of the steps that are round-off to the eye: the mistakes they have in them all the same. None
/// but in bfloat16 and float16.
std::vector<SmallMistake> small_mistakes(Trials& trials);

}  // namespace mainstem
