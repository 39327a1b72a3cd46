#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "diagnose/work_meter.h"
#include "mainstem/check.h"

namespace mainstem {

/// Runs the checks of check.h on one program, one function each.
class Checker {
 public:
  Checker(const Program& program, const WeightSources& weights, const CheckOptions& options);
  std::vector<CheckResult> run();

 private:
  struct Stages;  // the checks in their order
  // checker_behaviour.cc: what the program does
  void check_weights();
  void check_shape();
  void check_causal();
  void check_zero_input();
  void check_batch();
  void check_decode();
  void check_residual();
  // checker_spec.cc: the program beside the one its spec builds
  void check_norm_weights();
  void compare_with_spec();
  const char* group_of(const SiteId& id) const;

  bool block_only() const { return program_.input != kNoId; }
  bool is_causal() const;
  /// Tokens of the test inputs: few, and no more than a position table has rows.
  int64_t length() const;
  int64_t output_width() const { return program_.value(program_.output).width; }
  /// Seeded tokens, or rows for a block on its own.
  SequenceInput make_input(int64_t tokens, uint64_t seed) const;
  /// The input's token (or row) t alone, as a decode pass takes it.
  SequenceInput one_token(const SequenceInput& input, int64_t t) const;
  void corrupt(SequenceInput& input, int64_t position) const;
  /// Output rows [T, width] of one pass, and of T passes of one token, in float32.
  std::vector<double> output_rows(const SequenceInput& input);
  std::vector<double> decode_rows(const SequenceInput& input);
  /// To be called for each of the `sites` that a pass in double delivers.
  std::function<void()> count_sites(size_t sites);

  void report(const char* id, bool good, std::string detail);
  void skip(const char* id, std::string why);

  const Program& program_;
  const WeightSources& weights_;
  const int threads_;
  WorkMeter meter_;
  std::shared_ptr<const BoundProgram> bound_;
  std::vector<CheckResult> results_;
};

}  // namespace mainstem
