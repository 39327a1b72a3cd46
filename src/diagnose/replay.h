#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diagnose/dump_ground.h"
#include "mainstem/arithmetic.h"
#include "mainstem/program.h"
#include "mainstem/session.h"
#include "mainstem/weights.h"

namespace mainstem {

/// A value that is rounded before anything reads it.
struct RoundedValue {
  SiteId site;
  ChangeOfValue round = nullptr;
};

/// What a program makes of the user's own values at one site: the steps between that site and the
/// nearest values of the dump before it, run in double or in an imitated arithmetic. The program
/// may have been edited; it is cut, never rewritten.
class Replay {
 public:
  /// Throws a usage Error where the program has no such site. `change`: of the dump's values,
  /// before they are read; empty: they are as they are.
  Replay(const Program& program, const WeightSources& weights, const DumpGround& ground,
         const SiteId& target, ChangeOfInputs change = {});

  /// Values of the dump that are read (tokens, where nothing else is).
  const std::vector<SiteId>& from() const { return from_; }
  /// Sites between those and the target, the target not among them.
  const std::vector<SiteId>& covers() const { return covers_; }
  /// Rows depend on nothing but themselves, so some of them may be run alone.
  bool row_wise() const { return row_wise_; }
  /// Rows depend on nothing behind them, so the first of them may be run alone.
  bool causal() const { return causal_; }

  /// f(the user's inputs) at the target, row-major in its own layout. `rows`: some token rows
  /// alone, ascending (of row_wise()), or the first ones (of causal()); empty: all. `rounded`: one
  /// of covers().
  std::vector<double> run(const Arithmetic& arithmetic, std::span<const int64_t> rows, int threads,
                          const std::atomic<bool>* cancel = nullptr,
                          const std::optional<RoundedValue>& rounded = {}) const;

 private:
  std::vector<SequenceInput> inputs(std::span<const int64_t> rows) const;

  const DumpGround* ground_;
  SiteId target_;
  ChangeOfInputs change_;
  bool encoder_ = false;
  bool row_wise_ = true;
  bool causal_ = true;
  std::vector<SiteId> from_, covers_;
  std::map<std::string, const AlignedValue*> patched_;  ///< scores and patterns of the dump
  std::shared_ptr<const BoundProgram> bound_;
};

/// One pass of a whole program over the inputs of a dump, in double or in an imitated arithmetic.
void observe_whole(std::shared_ptr<const BoundProgram> bound, std::span<const SequenceInput> inputs,
                   std::vector<SiteId> sites, const Arithmetic& arithmetic, int threads,
                   const std::atomic<bool>* cancel, const TraceSink& sink);

}  // namespace mainstem
