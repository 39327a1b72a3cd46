// What diff() reports: every value of a dump beside the reference.

#include "mainstem/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "diagnose/checker_numbers.h"
#include "diagnose/diff_model.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

std::string text_of(const SiteId& site) { return to_string(site); }

std::vector<std::string> texts(const std::vector<SiteId>& sites) {
  std::vector<std::string> result;
  result.reserve(sites.size());
  for (const SiteId& site : sites) result.push_back(text_of(site));
  return result;
}

/// First element that the predicate holds for, as an index of the shape.
template <typename Holds>
std::vector<int64_t> first_where(const AlignedValue& value, Holds holds) {
  const auto found = std::find_if(value.data.begin(), value.data.end(), holds);
  if (found == value.data.end()) return {};
  int64_t flat = found - value.data.begin();
  std::vector<int64_t> index(value.shape.size());
  for (size_t axis = value.shape.size(); axis-- > 0;) {
    index[axis] = flat % value.shape[axis];
    flat /= value.shape[axis];
  }
  return index;
}

/// Units in the last place of the type between two numbers.
double ulps_between(double y, double f, double unit) {
  if (y == f) return 0;
  const double size = std::max(std::fabs(f), 0x1p-126);
  const double step = std::ldexp(2 * unit, std::ilogb(size));
  return std::fabs(y - f) / step;
}

void add_profile(StepReport& step, const AlignedValue& value, const Fit& fit,
                 const Compared& compared) {
  const RowLayout& layout = compared.layout();
  std::vector<double> token_error(static_cast<size_t>(layout.rows / layout.heads));
  std::vector<double> token_size(token_error.size());
  std::vector<double> head_error(static_cast<size_t>(layout.heads));
  std::vector<double> head_size(head_error.size());
  for (int64_t row = 0; row < layout.rows; ++row) {
    const auto at = static_cast<size_t>(row);
    if (fit.exact.error.empty() || std::isnan(fit.exact.size[at])) continue;
    const auto token = static_cast<size_t>(layout.token_row(row));
    const auto head = static_cast<size_t>(layout.head(row));
    token_error[token] += fit.exact.error[at];
    token_size[token] += fit.exact.size[at];
    head_error[head] += fit.exact.error[at];
    head_size[head] += fit.exact.size[at];
  }
  const auto relative = [](double error, double size) {
    return error == 0 ? 0 : std::sqrt(error / size);
  };
  for (size_t t = 0; t < token_error.size(); ++t) {
    step.per_token.push_back(relative(token_error[t], token_size[t]));
  }
  if (layout.heads > 1) {
    for (size_t h = 0; h < head_error.size(); ++h) {
      step.per_head.push_back(relative(head_error[h], head_size[h]));
    }
  }
  step.max_difference = fit.exact.max;
  if (fit.exact.max_row >= 0) {
    step.max_index = layout.index(fit.exact.max_row, fit.exact.max_column, value.shape.size());
  }
}

/// Means over the rows of two sets of logits.
LogitReport compare_logits(const AlignedValue& value, std::span<const double> reference,
                           const Compared& compared) {
  LogitReport report;
  const RowLayout& layout = compared.layout();
  const auto width = static_cast<size_t>(layout.width);
  int64_t rows = 0;
  double margin = std::numeric_limits<double>::infinity();
  constexpr size_t kBest = 5;
  for (int64_t row = 0; row < layout.rows; ++row) {
    if (!compared.row(row)) continue;
    const double* y = value.data.data() + static_cast<size_t>(row) * width;
    const double* f = reference.data() + static_cast<size_t>(row) * width;
    const auto log_sum = [&](const double* x) {
      const double top = *std::max_element(x, x + width);
      double sum = 0;
      for (size_t i = 0; i < width; ++i) sum += std::exp(x[i] - top);
      return top + std::log(sum);
    };
    const double log_y = log_sum(y);
    const double log_f = log_sum(f);
    for (size_t i = 0; i < width; ++i) {
      const double p = std::exp(f[i] - log_f);
      if (p > 0) report.kl += p * ((f[i] - log_f) - (y[i] - log_y));
    }
    const auto best = [&](const double* x) {
      std::vector<size_t> order(width);
      std::iota(order.begin(), order.end(), size_t{0});
      const size_t count = std::min(kBest, width);
      std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
                        order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
      order.resize(count);
      return order;
    };
    const auto mine = best(y);
    const auto theirs = best(f);
    double common = 0;
    for (size_t each : mine) common += std::count(theirs.begin(), theirs.end(), each) > 0 ? 1 : 0;
    report.top5 += common / static_cast<double>(theirs.size());
    if (mine[0] == theirs[0]) {
      report.top1 += 1;
    } else if (theirs.size() > 1) {
      margin = std::min(margin, f[theirs[0]] - f[theirs[1]]);
    }
    ++rows;
  }
  if (rows > 0) {
    report.kl /= static_cast<double>(rows);
    report.top1 /= static_cast<double>(rows);
    report.top5 /= static_cast<double>(rows);
  }
  report.smallest_margin = std::isfinite(margin) ? margin : 0;
  return report;
}

double cosine_of(std::span<const double> a, std::span<const double> b, const Difference& rows,
                 size_t width) {
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t row = 0; row < rows.size.size(); ++row) {
    if (std::isnan(rows.size[row])) continue;
    for (size_t i = row * width; i < (row + 1) * width; ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
      ab += a[i] * b[i];
      aa += a[i] * a[i];
      bb += b[i] * b[i];
    }
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 1;
}

}  // namespace

std::string_view name(DiffVerdict verdict) {
  switch (verdict) {
    case DiffVerdict::kMatch:
      return "match";
    case DiffVerdict::kDivergent:
      return "divergent";
    case DiffVerdict::kIncomparable:
      return "incomparable";
  }
  return {};
}

std::string_view name(StepVerdict verdict) {
  switch (verdict) {
    case StepVerdict::kOk:
      return "ok";
    case StepVerdict::kPrecision:
      return "precision";
    case StepVerdict::kWrong:
      return "wrong";
    case StepVerdict::kInherited:
      return "inherited";
    case StepVerdict::kUnknown:
      return "unknown";
  }
  return {};
}

std::vector<std::string> DiffReport::wrong() const {
  std::vector<std::string> result;
  for (const StepReport& step : steps) {
    if (step.verdict == StepVerdict::kWrong || step.verdict == StepVerdict::kPrecision) {
      result.push_back(text_of(step.site));
    }
  }
  return result;
}

// ------------------------------------------------------------------------------ a judged dump

JudgedDump::JudgedDump(const Model& model, const Dump& dump, const DiffOptions& options)
    : model_(model), options_(options), aligned_(align(model, dump, options)) {
  report_.unmapped = aligned_.unmapped;
  report_.notes = aligned_.notes;
  report_.reason = aligned_.incomparable;
  if (!report_.reason.empty()) return;
  report_.arithmetic = arithmetic_of(dump, aligned_, options);
  judge_ = std::make_unique<Judge>(model, aligned_, report_.arithmetic, options_);
  judge_steps();
  add_totals();
  conclude();
  note_other_weights();
}

void JudgedDump::judge_steps() {
  const auto total = std::ssize(aligned_.values);
  const auto progress = [&](int64_t done) {
    if (options_.progress) options_.progress(done, total);
  };
  progress(0);
  std::vector<Fit> fits = judge_->fits(progress);
  std::vector<size_t> wrong;
  for (size_t i = 0; i < fits.size(); ++i) {
    if (!fits[i].holds()) wrong.push_back(i);
  }
  std::vector<std::optional<LowerPrecision>> precisions(fits.size());
  each_alone(std::ssize(wrong), options_.threads, [&](int64_t n) {
    const size_t i = wrong[static_cast<size_t>(n)];
    precisions[i] = judge_->lower_precision(aligned_.values[i], fits[i]);
  });
  for (size_t i = 0; i < fits.size(); ++i) {
    const AlignedValue& value = aligned_.values[i];
    if (!value.only_read) judge_step(value, std::move(fits[i]), precisions[i]);
  }
  progress(total);
}

void JudgedDump::judge_step(const AlignedValue& value, Fit fit,
                            std::optional<LowerPrecision> precision) {
  StepReport step;
  step.site = value.site;
  step.name = value.name;
  step.local = fit.local;
  step.envelope = fit.envelope;
  step.ratio = fit.ratio;
  step.from = texts(fit.from);
  step.covers = texts(fit.covers);
  add_profile(step, value, fit, judge_->compared(value));
  step.first_inf = first_where(value, [](double v) { return std::isinf(v); });
  step.first_nan = first_where(value, [](double v) { return std::isnan(v); });
  if (value.site.site == Site::kScores || value.site.site == Site::kCrossScores) {
    if (!fit.exact.not_finite) {
      step.first_inf.clear();  // a mask's own
      step.first_nan.clear();
    }
  }
  // A chain through values that are wrong but not whole says nothing about its own steps.
  const bool on_wrong_ground =
      std::any_of(report_.steps.begin(), report_.steps.end(), [&](const StepReport& before) {
        return before.verdict != StepVerdict::kOk &&
               std::find(fit.covers.begin(), fit.covers.end(), before.site) != fit.covers.end();
      });
  const bool wrong_before =
      std::any_of(report_.steps.begin(), report_.steps.end(), [](const StepReport& before) {
        return before.verdict == StepVerdict::kWrong || before.verdict == StepVerdict::kPrecision;
      });
  // NaN spreads in more ways than one: a mask adds to it, or multiplies it by 0. Where no step
  // before was wrong it comes from rows that are not compared, and must not come from there.
  const bool spreads = fit.exact.not_finite && wrong_before &&
                       std::any_of(fit.from.begin(), fit.from.end(), [&](const SiteId& site) {
                         const AlignedValue* input = judge_->ground().given(site);
                         return input != nullptr && !all_finite(input->data);
                       });
  if (fit.holds()) {
    step.verdict = StepVerdict::kOk;
  } else if (on_wrong_ground || spreads) {
    step.verdict = StepVerdict::kInherited;
    precision.reset();
  } else {
    step.verdict = precision ? StepVerdict::kPrecision : StepVerdict::kWrong;
  }
  precisions_.push_back(precision);
  values_.push_back(&value);
  fits_.push_back(std::move(fit));
  report_.steps.push_back(std::move(step));
}

/// One pass of the reference over the same tokens.
void JudgedDump::add_totals() {
  if (options_.layers) return;  // the blocks before are not read
  std::map<std::string, size_t> step_of;
  std::vector<SiteId> sites;
  for (size_t i = 0; i < values_.size(); ++i) {
    step_of.emplace(to_string(values_[i]->site), i);
    sites.push_back(values_[i]->site);
    if (values_[i]->complete()) last_whole_ = i;
  }
  observe_whole(model_.bound(), aligned_.inputs, std::move(sites), {}, options_.threads,
                options_.cancel, [&](const TraceEvent& event) {
                  const auto found = step_of.find(to_string(event.site));
                  if (found != step_of.end()) add_total(found->second, to_f64(event.value));
                });
}

void JudgedDump::add_total(size_t i, std::vector<double> reference) {
  const AlignedValue& value = *values_[i];
  StepReport& step = report_.steps[i];
  if (reference.size() != value.data.size()) return;
  const Compared& compared = judge_->compared(value);
  const Difference off = difference(value, compared, value.data, reference);
  step.total = off.relative();
  const auto width = static_cast<size_t>(compared.layout().width);
  if (value.complete()) step.cosine = cosine_of(value.data, reference, off, width);
  if (off.max_row >= 0) {
    const auto at = static_cast<size_t>(off.max_row) * width + static_cast<size_t>(off.max_column);
    step.ulps = ulps_between(value.data[at], reference[at], unit_roundoff(report_.arithmetic));
  }
  const Program& program = model_.program();
  const bool predicts =
      program.spec.head.kind != HeadKind::kNone && program.find_value(value.site) == program.output;
  if (predicts && value.complete()) report_.logits = compare_logits(value, reference, compared);
  if (last_whole_ == i) reference_of_last_ = std::move(reference);
}

void JudgedDump::conclude() {
  for (size_t i = 0; i < report_.steps.size(); ++i) {
    StepReport& step = report_.steps[i];
    const bool wrong =
        step.verdict == StepVerdict::kWrong || step.verdict == StepVerdict::kPrecision;
    if (wrong && !report_.first) report_.first = i;
    if (!wrong && report_.first && step.verdict == StepVerdict::kOk && step.total &&
        *step.total > kRatioBand * *step.envelope) {
      step.verdict = StepVerdict::kInherited;
    }
  }
  report_.verdict = report_.first ? DiffVerdict::kDivergent : DiffVerdict::kMatch;
}

/// Every step that reads a matrix is wrong, and none that reads none.
void JudgedDump::note_other_weights() {
  constexpr int64_t kFewest = 4;
  const Program& program = judge_->right();
  int64_t products = 0;
  int64_t others = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < report_.steps.size(); ++i) {
    const auto value = program.find_value(report_.steps[i].site);
    const Op op = value ? program.step(program.value(*value).producer).op : Op::kInput;
    if (op == Op::kNorm || !fits_[i].covers.empty()) continue;  // its weights may all be 1
    const bool is_product = op == Op::kLinear || op == Op::kEmbedTokens;
    if (fits_[i].holds() == is_product) return;
    (is_product ? products : others) += 1;
    if (is_product) least = std::min(least, fits_[i].local);
  }
  if (products < kFewest || others < kFewest) return;
  report_.notes.push_back(fmt::format(
      "all {} products with matrices are wrong, by {:.1e} or more, and no step without: the dump "
      "looks like one of other weights (another checkpoint, or the same in another precision)",
      products, least));
}

void JudgedDump::call_wrong(std::span<const size_t> steps) {
  for (size_t i : steps) report_.steps[i].verdict = StepVerdict::kWrong;
  report_.first.reset();
  conclude();
}

DiffReport diff(const Model& model, const Dump& dump, const DiffOptions& options) {
  return std::move(JudgedDump(model, dump, options).report());
}

}  // namespace mainstem
