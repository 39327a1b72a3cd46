// Values of a lower precision than the others of their dump.

#include <algorithm>
#include <cmath>

#include "diagnose/judge.h"

namespace mainstem {
namespace {

/// A lower precision must account for this share of the squared error.
constexpr double kExplained = 0.5;
/// One value that is rounded gives the very same numbers, but where a tie falls otherwise.
constexpr double kExplainedByOne = 0.9;
constexpr double kLargestOfOneRounding = 16;
/// Variants of one arithmetic differ by less than this factor.
constexpr double kFarBeyond = 8;
/// A share of the squared error that is none.
constexpr double kNothing = 0.05;
/// In longer chains no single value is picked out.
constexpr size_t kLongestChain = 48;

/// How much smaller the squared error is beside the variant.
double explained_share(const Difference& exact, const Difference& variant) {
  double before = 0;
  double after = 0;
  for (size_t i = 0; i < exact.error.size(); ++i) {
    if (std::isnan(variant.size[i]) || std::isnan(exact.size[i])) continue;
    before += exact.error[i];
    after += variant.error[i];
  }
  return before > 0 ? 1 - after / before : 0;
}

template <ArithmeticType kType>
double stored_at(double number, size_t) {
  return stored_in(kType, number);
}

}  // namespace

std::optional<LowerPrecision> Judge::lower_precision(const AlignedValue& value,
                                                     const Fit& fit) const {
  std::vector<ArithmeticType> lower;
  switch (arithmetic_) {
    case ArithmeticType::kF64:
      lower = {ArithmeticType::kF32, ArithmeticType::kBF16, ArithmeticType::kF16};
      break;
    case ArithmeticType::kF32:
      lower = {ArithmeticType::kBF16, ArithmeticType::kF16, ArithmeticType::kQ8Act};
      break;
    case ArithmeticType::kF16:
      lower = {ArithmeticType::kBF16};
      break;
    case ArithmeticType::kBF16:
    case ArithmeticType::kQ8Act:
      break;
  }
  if (lower.empty() || fit.exact.not_finite) return {};
  const Replay replay = replay_of(value);
  const std::vector<int64_t> some = telling_rows(value, replay, fit);
  const Compared& rows = compared(value);
  const std::vector<double> exact = replay.run({}, some, options_.threads, options_.cancel);
  for (ArithmeticType type : lower) {
    double envelope = unit_roundoff(type);
    double share = 0;
    for (int v = 0; v < arithmetic_variants(type); ++v) {
      const std::vector<double> made =
          replay.run({type, v}, some, options_.threads, options_.cancel);
      envelope =
          std::max(envelope,
                   difference(unprinted(value), rows, exact, made, some, !some.empty()).relative());
      share = std::max(share,
                       explained_share(fit.exact, difference(value, rows, value.data, made, some)));
      // The other variants are of its size, and round most numbers as it does.
      if (fit.local > kFarBeyond * kRatioBand * envelope) break;
      if (share < kNothing && fit.local > kRatioBand / 2 * envelope) break;
    }
    if (fit.local > kRatioBand * envelope) continue;
    const bool stored =
        value.complete() && type != ArithmeticType::kQ8Act && is_stored_in(type, value);
    if (share >= kExplained || stored) return LowerPrecision{type};
  }
  return one_value_rounded(value, fit, replay, lower, some);
}

/// One of the values judged together may have been stored in 16 bits: the same numbers come out.
std::optional<LowerPrecision> Judge::one_value_rounded(const AlignedValue& value, const Fit& fit,
                                                       const Replay& replay,
                                                       std::span<const ArithmeticType> types,
                                                       std::span<const int64_t> some) const {
  if (replay.covers().size() > kLongestChain) return {};
  for (ArithmeticType type : types) {
    if (type != ArithmeticType::kBF16 && type != ArithmeticType::kF16) continue;
    // No single rounding makes errors of another size.
    if (fit.local > kLargestOfOneRounding * unit_roundoff(type)) continue;
    for (const SiteId& site : replay.covers()) {
      const RoundedValue rounded{site, type == ArithmeticType::kBF16
                                           ? stored_at<ArithmeticType::kBF16>
                                           : stored_at<ArithmeticType::kF16>};
      const std::vector<double> made =
          replay.run({}, some, options_.threads, options_.cancel, rounded);
      const Difference left = difference(value, compared(value), value.data, made, some);
      if (explained_share(fit.exact, left) >= kExplainedByOne) return LowerPrecision{type, site};
    }
  }
  return {};
}

ArithmeticType arithmetic_of(const Dump& dump, const Aligned& aligned, const DiffOptions& options) {
  if (options.dtype) return *options.dtype;
  // Its cache and patterns are float16 whatever the weights are, and only quantised ones round what
  // their products read.
  if (dump.format() == DumpFormat::kLlamaText) return ArithmeticType::kQ8Act;
  int bf16 = 0;
  int f16 = 0;
  int f64 = 0;
  int all = 0;
  for (const AlignedValue& value : aligned.values) {
    if (!value.complete() || value.site.site == Site::kTokenEmbed) continue;
    ++all;
    if (is_stored_in(ArithmeticType::kBF16, value)) {
      ++bf16;
    } else if (is_stored_in(ArithmeticType::kF16, value)) {
      ++f16;
    } else if (value.dtype == DType::kF64) {
      const bool wide = std::any_of(value.data.begin(), value.data.end(), [](double v) {
        return std::isfinite(v) && static_cast<double>(static_cast<float>(v)) != v;
      });
      f64 += wide ? 1 : 0;
    }
  }
  if (bf16 * 2 > all) return ArithmeticType::kBF16;
  if ((f16 + bf16) * 2 > all) return ArithmeticType::kF16;
  return f64 * 2 > all ? ArithmeticType::kF64 : ArithmeticType::kF32;
}

}  // namespace mainstem
