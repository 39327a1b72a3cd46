#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/align.h"
#include "diagnose/causes.h"
#include "diagnose/measure.h"
#include "diagnose/replay.h"
#include "diagnose/unrounding.h"
#include "mainstem/diff.h"

namespace mainstem {

/// Up to this ratio of local error and envelope a difference is round-off; docs/diff.md has the
/// measurements on sound implementations.
inline constexpr double kRatioBand = 4;

/// How a value of the dump stands to what some program makes of the values before it.
struct Fit {
  double local = 0;       ///< relative, of the whole
  double envelope = 0;    ///< the largest of the same of sound implementations
  double ratio = 0;       ///< of the whole, or of the worst row
  Difference exact = {};  ///< row by row
  std::vector<SiteId> from = {}, covers = {};
  /// Beside a mistake: more than half of the error beside the reference is gone, and nothing has
  /// become infinite.
  bool accounts = true;
  /// Beside a mistake that the first rows speak against: `local` is what these let expect.
  bool of_first_rows = false;
  bool holds() const { return ratio <= kRatioBand; }
};

/// A type that somebody computed in, lower than the dump's.
struct LowerPrecision {
  ArithmeticType type = ArithmeticType::kBF16;
  std::optional<SiteId> only = {};  ///< one of the values judged together; none: all of them
};

/// Judges values of one dump, each on the dump's own values before it.
class Judge {
 public:
  /// All must outlive the judge.
  Judge(const Model& model, const Aligned& aligned, ArithmeticType arithmetic,
        const DiffOptions& options);

  const DumpGround& ground() const { return ground_; }
  const Program& right() const { return right_; }
  const WeightSources& weights() const { return weights_; }
  const Aligned& aligned() const { return aligned_; }
  ArithmeticType arithmetic() const { return arithmetic_; }
  const DiffOptions& options() const { return options_; }

  /// Every value of the dump beside the reference, in its order; those that are only read are left
  /// out. progress(how many) may be empty and is called by the calling thread alone.
  std::vector<Fit> fits(const std::function<void(int64_t)>& progress);
  /// Beside a program with a mistake in it; `right`: beside the reference. No envelope is measured
  /// where the mistake makes it worse. A long text may be given up after its first rows, unless
  /// `all_rows`. May be called from several threads at once.
  Fit fit(const AlignedValue& value, const Edited& edited, const Fit& right,
          bool all_rows = false) const;
  /// Local error alone, relative: what a search for a number minimises. `rows`: some that can be
  /// run alone; empty: all.
  double local_of(const AlignedValue& value, const Edited& edited,
                  std::span<const int64_t> rows) const;
  /// Token rows on which the numbers of a mistake show, a few where a few will do; empty: all.
  /// `usual`: they need not be told from numbers beside them.
  std::vector<int64_t> rows_for_numbers(const AlignedValue& value, const Edited& edited,
                                        const Fit& right, bool usual) const;
  /// Is the difference what a lower precision makes of the same inputs? Which one, if so.
  std::optional<LowerPrecision> lower_precision(const AlignedValue& value, const Fit& fit) const;

  const Compared& compared(const AlignedValue& value) const;
  /// The reference, or a program with a mistake in it, cut to the dump's values before this one.
  Replay replay_of(const AlignedValue& value, const ChangeOfInputs& change = {}) const;
  Replay replay_of(const AlignedValue& value, const Edited& edited,
                   const ChangeOfInputs& change = {}) const;

 private:
  struct WholePass {
    std::map<std::string, std::vector<double>> values;
  };
  /// The same replay on changed values of the dump.
  using ReplayBefore = std::function<Replay(const ChangeOfInputs&)>;
  Fit fit(const AlignedValue& value, const Replay& replay, const ReplayBefore& before,
          double give_up) const;
  /// Behind an incomplete value steps are judged from the tokens on, all in the same passes.
  Fit fit_whole(const AlignedValue& value, const Replay& replay);
  /// How wrong the first rows of a long causal text are beside the reference, relative; nothing:
  /// they cannot be run alone, or are right.
  std::optional<double> wrong_at_first(const AlignedValue& value, const Replay& replay,
                                       const Fit& right) const;
  /// What the first rows say against a mistake; nothing: they do not.
  std::optional<Fit> against(const AlignedValue& value, const Replay& replay,
                             const Fit& right) const;
  /// Token rows that tell what made the error; empty: all of them.
  std::vector<int64_t> telling_rows(const AlignedValue& value, const Replay& replay,
                                    const Fit& right) const;
  ArithmeticType imitated() const;
  Difference round_off(const AlignedValue& value, std::span<const double> exact,
                       std::span<const double> variant, std::span<const int64_t> some) const;
  const WholePass& whole(const Arithmetic& arithmetic);
  std::optional<LowerPrecision> one_value_rounded(const AlignedValue& value, const Fit& fit,
                                                  const Replay& replay,
                                                  std::span<const ArithmeticType> types,
                                                  std::span<const int64_t> some) const;
  void set_ratio(Fit& fit, const AlignedValue& value,
                 const std::vector<Difference>& variants) const;
  std::vector<int64_t> some_rows(const AlignedValue& value, const Difference* exact) const;

  const Program& right_;
  const WeightSources& weights_;
  std::shared_ptr<const BoundProgram> bound_;
  const Aligned& aligned_;
  ArithmeticType arithmetic_;
  const DiffOptions& options_;
  DumpGround ground_;
  Unrounding unrounding_;
  std::map<std::string, Compared> compared_;
  std::map<int, WholePass> whole_;
};

/// body(i) for every i in [0, count): many, each on a thread of its own, or few, one after another,
/// so that each may use all threads. progress(how many are done) may be empty and is called by the
/// calling thread alone.
void each_alone(int64_t count, int threads, const std::function<void(int64_t)>& body,
                const std::function<void(int64_t)>& progress = {});

/// The same places without the last digit that printing loses: of values that were computed here.
AlignedValue unprinted(const AlignedValue& value);
/// Half of a unit in the last place, relative: the largest error of rounding a number once.
double unit_roundoff(ArithmeticType type);
/// The type on whose grid most values of the dump lie, or what the dump's kind implies.
ArithmeticType arithmetic_of(const Dump& dump, const Aligned& aligned, const DiffOptions& options);

}  // namespace mainstem
