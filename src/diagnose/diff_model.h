#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "diagnose/align.h"
#include "diagnose/judge.h"
#include "mainstem/diff.h"

namespace mainstem {

/// One judged dump, kept for whoever asks further: what diff() reports and doctor() explains.
class JudgedDump {
 public:
  JudgedDump(const Model& model, const Dump& dump, const DiffOptions& options);

  DiffReport& report() { return report_; }
  Judge& judge() { return *judge_; }
  /// The dump's value and its fit behind `report().steps[i]`.
  const AlignedValue& value(size_t i) const { return *values_[i]; }
  const Fit& fit(size_t i) const { return fits_[i]; }
  /// Of a step whose verdict is precision: the type that it was computed in.
  std::optional<LowerPrecision> precision(size_t i) const { return precisions_[i]; }
  /// These steps have a mistake in them that their ratio does not show.
  void call_wrong(std::span<const size_t> steps);
  const Aligned& aligned() const { return aligned_; }
  /// The last value that the dump has whole, and what the reference makes there; no step: none.
  std::optional<size_t> last_whole() const { return last_whole_; }
  const std::vector<double>& reference_of_last() const { return reference_of_last_; }

 private:
  void judge_steps();
  void judge_step(const AlignedValue& value, Fit fit, std::optional<LowerPrecision> precision);
  void add_totals();
  void add_total(size_t i, std::vector<double> reference);
  void conclude();
  void note_other_weights();

  const Model& model_;
  const DiffOptions& options_;
  Aligned aligned_;
  std::unique_ptr<Judge> judge_;
  std::vector<const AlignedValue*> values_;
  std::vector<Fit> fits_;
  std::vector<std::optional<LowerPrecision>> precisions_;
  std::optional<size_t> last_whole_;
  std::vector<double> reference_of_last_;
  DiffReport report_;
};

}  // namespace mainstem
