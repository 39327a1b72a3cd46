#pragma once

// What the fuzz target does with its input: a dump made of the bytes is aligned with a tiny model
// and judged. Nothing but an Error about the input may come out, a report must be in order, values
// as the model has them are never wrong, whatever types they are stored in, and a NaN among them
// never matches.
// tests/diagnose/fuzz_corpus_test.cc runs the kept corpus through it.

#include <cstddef>
#include <cstdlib>
#include <set>
#include <span>
#include <string>

#include "fuzz_targets.h"
#include "made_dumps.h"

namespace mainstem::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

/// What every report promises.
inline void check_report(const DiffReport& report, const Dump& dump, const Program& program) {
  require((report.verdict == DiffVerdict::kIncomparable) == !report.reason.empty());
  require((report.verdict == DiffVerdict::kDivergent) == report.first.has_value());
  require(!report.first || *report.first < report.steps.size());
  require(report.wrong().empty() == !report.first);
  for (const StepReport& step : report.steps) {
    require(dump.find(step.name) != nullptr ||
            dump.find(step.name.substr(0, step.name.rfind('.'))) != nullptr);  // stacked
    require(program.find_value(step.site).has_value());
    // NaN is a distance that is no number; negative is none at all.
    for (const auto& number : {step.total, step.local, step.envelope, step.ratio}) {
      require(!number || !(*number < 0));
    }
  }
}

/// Scores and patterns hold anything where a mask hides it.
inline bool has_hidden(const SiteId& site) {
  return site.site == Site::kScores || site.site == Site::kPattern ||
         site.site == Site::kCrossScores || site.site == Site::kCrossPattern;
}

inline void run_aligned_dump(std::span<const std::byte> input) {
  MadeDump made(input);
  try {
    const Dump dump = made.open();
    const DiffReport report = diff(made.model(), dump, made.options());
    check_report(report, dump, made.model().program());
    if (!made.plain() || made.is_text()) return;
    bool as_computed = true, named = true, not_finite = false;
    std::set<DType> types;
    std::set<std::string> names;
    for (const MadeTensor& tensor : made.tensors()) {
      named &= tensor.faithful.has_value();
      as_computed &= tensor.whole;
      // Declared double, 16 bits are not round-off.
      as_computed &=
          !made.options().dtype || tensor.dtype == DType::kF64 || tensor.dtype == DType::kI64;
      const bool read = names.insert(tensor.name).second;  // a second call is noted alone
      not_finite |= read && tensor.not_finite && tensor.faithful && !has_hidden(*tensor.faithful);
      named &= info(tensor.dtype).is_float || tensor.dtype == DType::kI64;
      if (info(tensor.dtype).is_float) types.insert(tensor.dtype);
    }
    if (!named) return;
    // One value in a lower type than the others is a matter of precision, and no more than that.
    if (as_computed && types.size() < 2) require(report.verdict != DiffVerdict::kDivergent);
    for (const StepReport& step : report.steps) {
      if (as_computed) require(step.verdict != StepVerdict::kWrong);
    }
    if (not_finite) require(report.verdict != DiffVerdict::kMatch);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput && error.code() != ErrorCode::kUsage) std::abort();
  }
}

}  // namespace mainstem::fuzz
