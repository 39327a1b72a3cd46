#include "diagnose/judge.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "mainstem/threads.h"

namespace mainstem {
namespace {

constexpr size_t kSomeRows = 8;
/// Longer chains from the tokens are judged by passes over the whole program, once for all.
constexpr size_t kLongChain = 48;

/// A row of few numbers may be off by this many roundings, whatever the variants are off by there.
constexpr double kRowRoundings = 2;
/// exp doubles the rounding of its argument as often as that has digits before the point, and some
/// take 2^(x log2 e) instead; in 16 bits the rounding of the result hides it.
constexpr double kPatternRoundings = 8;

double row_roundings(Site site, ArithmeticType type) {
  const bool narrow = type == ArithmeticType::kBF16 || type == ArithmeticType::kF16;
  const bool pattern = site == Site::kPattern || site == Site::kCrossPattern ||
                       site == Site::kAttnMix || site == Site::kCrossAttnMix;
  return pattern && !narrow ? kPatternRoundings : kRowRoundings;
}
/// The envelope of a step with a mistake in it is at most this many times that of the right one.
constexpr double kMistakesEnvelope = 2;
/// A causal text of many times that many rows is first judged by these.
constexpr int64_t kFirstRows = 8;
constexpr int64_t kManyTimesTheFirst = 4;
/// They must be wrong by so many envelopes to speak against anything.
constexpr double kClearlyWrong = 20;
/// So many pieces of work for each thread keep all of them busy to the end.
constexpr int64_t kManyForEachThread = 4;
/// A mistake must account for more than half of the error.
constexpr double kMostLeft = 0.5;

double square(double x) { return x * x; }

std::vector<int64_t> first_rows() {
  std::vector<int64_t> rows(kFirstRows);
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

/// Of the largest variant in each row, over all rows: what a row of a few printed numbers may be
/// off by. Behind a long chain they miss by one common factor, which differs from variant to
/// variant as much as a single number does.
double mean_error(const std::vector<Difference>& variants) {
  if (variants.empty()) return 0;
  double sum = 0;
  double rows = 0;
  for (size_t row = 0; row < variants[0].error.size(); ++row) {
    double largest = 0;
    bool measured = false;
    for (const Difference& variant : variants) {
      if (std::isnan(variant.error[row])) continue;
      measured = true;
      largest = std::max(largest, variant.error[row]);
    }
    sum += largest;
    rows += measured ? 1 : 0;
  }
  return rows > 0 ? sum / rows : 0;
}

}  // namespace

void each_alone(int64_t count, int threads, const std::function<void(int64_t)>& body,
                const std::function<void(int64_t)>& progress) {
  const int workers = threads > 0 ? threads : default_thread_count();
  std::atomic<int64_t> done{0};
  const auto one = [&, caller = std::this_thread::get_id()](int64_t i) {
    body(i);
    const int64_t so_far = done.fetch_add(1) + 1;
    if (progress && std::this_thread::get_id() == caller) progress(so_far);
  };
  if (count >= kManyForEachThread * workers) {
    ThreadPool::shared().for_each(threads, count, one);
  } else {
    for (int64_t i = 0; i < count; ++i) one(i);
  }
}

AlignedValue unprinted(const AlignedValue& value) {
  AlignedValue bare;
  bare.site = value.site;
  bare.known = value.known;
  bare.up_to_row_constant = value.up_to_row_constant;
  return bare;
}

double unit_roundoff(ArithmeticType type) {
  switch (type) {
    case ArithmeticType::kF64:
      return 0x1p-53;
    case ArithmeticType::kF32:
      return 0x1p-24;
    case ArithmeticType::kBF16:
      return 0x1p-8;
    case ArithmeticType::kF16:
      return 0x1p-11;
    case ArithmeticType::kQ8Act:
      return 0x1p-24;
  }
  return 0;
}

Judge::Judge(const Model& model, const Aligned& aligned, ArithmeticType arithmetic,
             const DiffOptions& options)
    : right_(model.program()),
      weights_(model.weights()),
      bound_(model.bound()),
      aligned_(aligned),
      arithmetic_(arithmetic),
      options_(options),
      ground_(aligned),
      unrounding_(aligned, arithmetic) {
  for (const AlignedValue& value : aligned.values) {
    compared_.try_emplace(to_string(value.site), right_, ground_, value);
  }
}

const Compared& Judge::compared(const AlignedValue& value) const {
  return compared_.at(to_string(value.site));
}

std::vector<Fit> Judge::fits(const std::function<void(int64_t)>& progress) {
  const std::vector<AlignedValue>& values = aligned_.values;
  std::vector<Fit> result(values.size());
  std::vector<uint8_t> needs_passes(values.size());
  const auto judge_one = [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    if (values[i].only_read) return;
    const Replay replay = replay_of(values[i]);
    const bool tokens_alone = replay.from().size() == 1 && replay.from()[0].site == Site::kTokens;
    if (tokens_alone && replay.covers().size() > kLongChain) {
      needs_passes[i] = 1;
      return;
    }
    const auto before = [&](const ChangeOfInputs& change) { return replay_of(values[i], change); };
    result[i] = fit(values[i], replay, before, std::numeric_limits<double>::infinity());
  };
  each_alone(std::ssize(values), options_.threads, judge_one, progress);
  for (size_t i = 0; i < values.size(); ++i) {
    if (needs_passes[i] != 0) result[i] = fit_whole(values[i], replay_of(values[i]));
  }
  return result;
}

Replay Judge::replay_of(const AlignedValue& value, const Edited& edited,
                        const ChangeOfInputs& change) const {
  return {edited.program, merged(edited.weights, weights_), ground_, value.site, change};
}

Replay Judge::replay_of(const AlignedValue& value, const ChangeOfInputs& change) const {
  return {right_, weights_, ground_, value.site, change};
}

std::optional<double> Judge::wrong_at_first(const AlignedValue& value, const Replay& replay,
                                            const Fit& right) const {
  const RowLayout& layout = compared(value).layout();
  if (replay.row_wise() || !replay.causal() || layout.square) return {};
  const int64_t first = kFirstRows * layout.heads;
  if (layout.rows < kManyTimesTheFirst * first) return {};
  double error = 0;
  double size = 0;
  for (size_t row = 0; row < static_cast<size_t>(first); ++row) {
    if (std::isnan(right.exact.size[row])) continue;
    error += right.exact.error[row];
    size += right.exact.size[row];
  }
  const double wrong = std::sqrt(error / size);
  if (!std::isfinite(wrong) || wrong < kClearlyWrong * right.envelope) return {};
  return wrong;
}

std::optional<Fit> Judge::against(const AlignedValue& value, const Replay& replay,
                                  const Fit& right) const {
  const std::optional<double> wrong = wrong_at_first(value, replay, right);
  if (!wrong) return {};
  const RowLayout& layout = compared(value).layout();
  const std::vector<double> made = replay.run({}, first_rows(), options_.threads, options_.cancel);
  if (std::ssize(made) != kFirstRows * layout.heads * layout.width) return {};
  Fit fit;
  fit.exact = difference(value, compared(value), value.data, made, first_rows());
  const double left = fit.exact.relative();
  if (std::isnan(left) || left <= kMostLeft * *wrong) return {};
  fit.local = right.local * left / *wrong;
  fit.ratio = std::numeric_limits<double>::infinity();
  fit.accounts = false;
  fit.of_first_rows = true;
  return fit;
}

std::vector<int64_t> Judge::telling_rows(const AlignedValue& value, const Replay& replay,
                                         const Fit& right) const {
  if (replay.row_wise()) return some_rows(value, &right.exact);
  return wrong_at_first(value, replay, right) ? first_rows() : std::vector<int64_t>{};
}

Fit Judge::fit(const AlignedValue& value, const Edited& edited, const Fit& right,
               bool all_rows) const {
  const auto before = [&](const ChangeOfInputs& change) {
    return replay_of(value, edited, change);
  };
  const Replay replay = before({});
  if (!all_rows && !edited.every_row) {
    if (auto against_it = against(value, replay, right)) return std::move(*against_it);
  }
  Fit result =
      fit(value, replay, before, std::max(kMostLeft * right.local, kRatioBand * right.envelope));
  // A mistake may make a step less exact, but not by so much that everything fits.
  const double widest = kMistakesEnvelope * right.envelope;
  if (result.envelope > widest) {
    result.envelope = widest;
    result.ratio = std::max(result.ratio, result.local / widest);
  }
  // What makes everything infinite explains nothing, nor does what leaves most of the error.
  const bool less = result.exact.compared < right.exact.compared;
  if (less) result.ratio = std::numeric_limits<double>::infinity();
  result.accounts = !less && result.local <= kMostLeft * right.local;
  return result;
}

double Judge::local_of(const AlignedValue& value, const Edited& edited,
                       std::span<const int64_t> rows) const {
  const std::vector<double> made =
      replay_of(value, edited).run({}, rows, options_.threads, options_.cancel);
  if (made.empty()) return std::numeric_limits<double>::infinity();
  const double local = difference(value, compared(value), value.data, made, rows).relative();
  return std::isnan(local) ? std::numeric_limits<double>::infinity() : local;
}

std::vector<int64_t> Judge::rows_for_numbers(const AlignedValue& value, const Edited& edited,
                                             const Fit& right, bool usual) const {
  if (edited.every_row) return {};
  const Replay replay = replay_of(value, edited);
  if (replay.row_wise()) return some_rows(value, nullptr);
  return usual ? telling_rows(value, replay, right) : std::vector<int64_t>{};
}

/// Token rows to measure envelopes on: spread over the text, with those that matter most.
std::vector<int64_t> Judge::some_rows(const AlignedValue& value, const Difference* exact) const {
  const RowLayout layout = row_layout(right_, value.site, value.shape);
  const int64_t tokens = layout.rows / layout.heads;
  std::vector<int64_t> rows;
  const auto add = [&](int64_t token_row) {
    if (!ground_.is_padding(layout.encoder, token_row)) rows.push_back(token_row);
  };
  for (size_t i = 0; i < kSomeRows; ++i) {
    add(static_cast<int64_t>(i) * (tokens - 1) / static_cast<int64_t>(kSomeRows - 1));
  }
  if (exact != nullptr) {
    int64_t largest = -1;
    int64_t wrongest = -1;
    int64_t worst = -1;
    for (int64_t row = 0; row < layout.rows; ++row) {
      const auto at = static_cast<size_t>(row);
      if (std::isnan(exact->size[at])) continue;
      if (largest < 0 || exact->size[at] > exact->size[static_cast<size_t>(largest)]) largest = row;
      if (wrongest < 0 || exact->error[at] > exact->error[static_cast<size_t>(wrongest)]) {
        wrongest = row;
      }
      if (worst < 0 || exact->relative(row) > exact->relative(worst)) worst = row;
    }
    for (int64_t row : {largest, wrongest, worst}) {
      if (row >= 0) add(layout.token_row(row));
    }
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

void Judge::set_ratio(Fit& fit, const AlignedValue& value,
                      const std::vector<Difference>& variants) const {
  const double unit = unit_roundoff(arithmetic_);
  const double roundings = row_roundings(value.site.site, arithmetic_);
  fit.envelope = roundings / 4 * unit;
  for (const Difference& variant : variants) {
    const double relative = variant.relative();
    if (std::isfinite(relative)) fit.envelope = std::max(fit.envelope, relative);
  }
  if (fit.exact.not_finite) {
    fit.ratio = std::numeric_limits<double>::infinity();
    return;
  }
  fit.ratio = fit.local / fit.envelope;
  const double floor = value.complete() ? 0 : mean_error(variants);
  for (size_t row = 0; row < fit.exact.error.size(); ++row) {
    if (std::isnan(fit.exact.error[row]) || fit.exact.error[row] == 0) continue;
    double largest = std::max(floor, square(roundings * unit) * fit.exact.size[row]);
    bool measured = false;
    for (const Difference& variant : variants) {
      if (std::isnan(variant.error[row])) continue;
      measured = true;
      largest = std::max(largest, variant.error[row]);
    }
    if (!measured) continue;
    const double ratio = largest > 0 ? std::sqrt(fit.exact.error[row] / largest)
                                     : std::numeric_limits<double>::infinity();
    fit.ratio = std::max(fit.ratio, ratio);
  }
}

/// In double nothing is imitated; its round-off is that of float32, made smaller.
ArithmeticType Judge::imitated() const {
  return arithmetic_ == ArithmeticType::kF64 ? ArithmeticType::kF32 : arithmetic_;
}

/// How far a variant is from the exact values, in the places that are compared.
Difference Judge::round_off(const AlignedValue& value, std::span<const double> exact,
                            std::span<const double> variant, std::span<const int64_t> some) const {
  Difference off = difference(unprinted(value), compared(value), exact, variant, some);
  const double scale = unit_roundoff(arithmetic_) / unit_roundoff(imitated());
  for (double& error : off.error) error *= square(scale);
  return off;
}

Fit Judge::fit(const AlignedValue& value, const Replay& replay, const ReplayBefore& before,
               double give_up) const {
  Fit result;
  result.from = replay.from();
  result.covers = replay.covers();
  const std::vector<double> exact = replay.run({}, {}, options_.threads, options_.cancel);
  const Compared& rows = compared(value);
  if (exact.size() != value.data.size()) {
    // Only a mistake can make a value of another size.
    result.local = result.ratio = std::numeric_limits<double>::infinity();
    return result;
  }
  result.exact = difference(value, rows, value.data, exact);
  result.local = result.exact.relative();
  if (result.local > give_up) {
    result.ratio = std::numeric_limits<double>::infinity();
    return result;
  }
  const std::vector<int64_t> some =
      replay.row_wise() ? some_rows(value, &result.exact) : std::vector<int64_t>{};
  std::vector<Difference> variants;
  for (int v = 0; v < arithmetic_variants(imitated()); ++v) {
    const std::vector<double> made =
        replay.run({imitated(), v}, some, options_.threads, options_.cancel);
    variants.push_back(round_off(value, exact, made, some));
    set_ratio(result, value, variants);
    // More variants can only widen the envelope.
    if (result.ratio <= (v == 0 ? 1 : kRatioBand / 2)) break;
  }
  for (int v = 0; v < Unrounding::kVariants && !unrounding_.empty(); ++v) {
    if (result.holds() || result.exact.not_finite) break;
    const Replay other =
        before([&](const AlignedValue& input) { return unrounding_.before(input, v); });
    const std::vector<double> made = other.run({}, some, options_.threads, options_.cancel);
    variants.push_back(difference(unprinted(value), rows, exact, made, some));
    set_ratio(result, value, variants);
  }
  return result;
}

const Judge::WholePass& Judge::whole(const Arithmetic& arithmetic) {
  const int key = static_cast<int>(arithmetic.type) * 64 + arithmetic.variant;
  const auto found = whole_.find(key);
  if (found != whole_.end()) return found->second;
  WholePass pass;
  std::vector<SiteId> sites;
  for (const AlignedValue& value : aligned_.values) sites.push_back(value.site);
  observe_whole(
      bound_, aligned_.inputs, std::move(sites), arithmetic, options_.threads, options_.cancel,
      [&](const TraceEvent& event) { pass.values[to_string(event.site)] = to_f64(event.value); });
  return whole_.emplace(key, std::move(pass)).first->second;
}

Fit Judge::fit_whole(const AlignedValue& value, const Replay& replay) {
  Fit result;
  result.from = replay.from();
  result.covers = replay.covers();
  const Compared& rows = compared(value);
  const std::string site = to_string(value.site);
  const std::vector<double>& exact = whole({}).values.at(site);
  result.exact = difference(value, rows, value.data, exact);
  result.local = result.exact.relative();
  std::vector<Difference> variants;
  for (int v = 0; v < arithmetic_variants(imitated()); ++v) {
    variants.push_back(round_off(value, exact, whole({imitated(), v}).values.at(site), {}));
  }
  set_ratio(result, value, variants);
  return result;
}

}  // namespace mainstem
