#pragma once

#include <cstdint>
#include <vector>

#include "mainstem/program.h"
#include "mainstem/session.h"

namespace mainstem {

/// Lengths after which a longrope step turns by its other list of divisors, ascending. Empty for
/// most programs.
std::vector<int64_t> switch_lengths(const Program& program);

/// What a sequence has read, kept so that its cache can be made anew when it outgrows one of
/// `switches`: keys turned by both lists of divisors do not belong in one cache (transformers 5.24
/// models/phi3, prepare_inputs_for_generation). Keeps nothing where there are no switches.
class History {
 public:
  /// `input_width`: of the rows of a block on its own.
  History(const std::vector<int64_t>* switches, int64_t input_width)
      : switches_(switches), input_width_(input_width) {}

  /// Length of the whole after `next`: its largest position plus one.
  int64_t length_with(const SequenceInput& next) const;
  /// Whether the cache, made for `reach`, holds keys that a pass up to `length` would turn
  /// otherwise.
  bool outgrows(int64_t length) const;
  /// A pass up to `length` made the cache (anew).
  void made_for(int64_t length) { reach_ = length; }

  void append(const SequenceInput& next);
  /// Forgets what came after the first `count` positions.
  void truncate(int64_t count);
  const SequenceInput& past() const { return past_; }

 private:
  int64_t rows(const SequenceInput& input) const;
  /// Positions of `next`, counted where they are not given.
  std::vector<int64_t> positions_of(const SequenceInput& next) const;

  const std::vector<int64_t>* switches_;
  int64_t input_width_;
  SequenceInput past_;  ///< with all its positions
  int64_t reach_ = 0;
};

}  // namespace mainstem
