#pragma once

#include <cstddef>
#include <vector>

#include "diagnose/doctor_trials.h"
#include "diagnose/regression.h"

// Mistakes smaller than the round-off of 16-bit types: one value tells nothing, all of them do.

namespace mainstem {

/// A mistake by its form, with numbers where the form leaves some open.
struct FormAndNumbers {
  const Form* form = nullptr;
  std::vector<double> numbers = {};
};

/// A mistake that a regression found, with the steps that it is in.
struct SmallMistake {
  std::vector<size_t> steps = {};
  std::vector<const Form*> forms = {};  ///< the mistake at each of them
  std::vector<double> numbers = {};     ///< of all of these forms: published ones
  Regression regression = {};           ///< over all of them
  size_t order = 0;                     ///< the most usual first
  /// Other mistakes that make the very same values here.
  std::vector<FormAndNumbers> same = {};
  /// Those that account for as much, some with a number chosen for it: nothing tells them apart.
  std::vector<FormAndNumbers> rivals = {};
  /// Other published numbers of the same form that account for as much.
  std::vector<double> other_numbers = {};

  /// No other mistake accounts for as much, and a chosen number is known closely.
  bool proved() const;
};

/// Of the steps that are round-off to the eye: the mistakes they have in them all the same. None
/// but in bfloat16 and float16.
std::vector<SmallMistake> small_mistakes(Trials& trials);

}  // namespace mainstem
