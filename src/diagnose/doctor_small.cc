#include "diagnose/doctor_small.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "mainstem/error.h"

namespace mainstem {
namespace {

/// So many standard deviations are no chance, however many forms are tried.
constexpr double kBeyondChance = 8;
/// The coefficient may be off by so many of its own standard deviations, which must be small.
constexpr double kOffBy = 4;
constexpr double kVague = 0.1;
/// What is explained must differ by the square of so many standard deviations to tell two apart.
constexpr double kToldApart = 25;
/// Rounding to the nearest leaves a twelfth of a squared unit; a fit that leaves less is luck.
constexpr double kRoundingVariance = 1.0 / 12;
/// Numbers far below the others of the value have an error that their own size does not show.
constexpr double kSmallestShare = 1.0 / 8;

double size_of(std::span<const double> values) {
  double sum = 0;
  for (double v : values) sum += std::isfinite(v) ? v * v : 0;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

/// A step beside the reference, with what the regressions of many forms have in common.
class StepResidual {
 public:
  StepResidual(Judge& judge, const AlignedValue& value)
      : judge_(judge),
        value_(value),
        right_(made_by(judge.replay_of(value))),
        smallest_(kSmallestShare * size_of(right_)) {}

  Regression beside(const Edited& edited) const {
    Regression result;
    const std::vector<double> wrong = made_by(judge_.replay_of(value_, edited));
    if (wrong.size() != value_.data.size() || right_.size() != wrong.size()) return result;
    const Compared& compared = judge_.compared(value_);
    const RowLayout& layout = compared.layout();
    const double unit = 2 * unit_roundoff(judge_.arithmetic());
    for (int64_t row = 0; row < layout.rows; ++row) {
      if (!compared.row(row)) continue;
      const auto [begin, end] = compared.columns(row);
      const Regression before = result;
      for (int64_t column = begin; column < end; ++column) {
        const auto at = static_cast<size_t>(row * layout.width + column);
        const double size = std::max(std::fabs(right_[at]), smallest_);
        if (!std::isfinite(value_.data[at]) || !std::isfinite(wrong[at]) || !(size > 0)) continue;
        const double ulp = std::ldexp(unit, std::ilogb(size));
        const double residual = (value_.data[at] - right_[at]) / ulp;
        const double change = (wrong[at] - right_[at]) / ulp;
        result.residual_change += residual * change;
        result.change_change += change * change;
        result.residual_residual += residual * residual;
        ++result.count;
      }
      const double r = result.residual_change - before.residual_change;
      const double c = result.change_change - before.change_change;
      result.rows_rr += r * r;
      result.rows_rc += r * c;
      result.rows_cc += c * c;
    }
    return result;
  }

 private:
  std::vector<double> made_by(const Replay& replay) const {
    const DiffOptions& options = judge_.options();
    return replay.run({}, {}, options.threads, options.cancel);
  }

  Judge& judge_;
  const AlignedValue& value_;
  std::vector<double> right_;
  double smallest_;
};

/// Forms without open numbers whose change could hide in round-off; what only rounds otherwise is
/// no mistake here: sound implementations do either.
bool may_hide(const Form& form) { return form.numbers.empty() && !form.only_rounds; }

}  // namespace

void Regression::add(const Regression& other) {
  residual_change += other.residual_change;
  change_change += other.change_change;
  residual_residual += other.residual_residual;
  count += other.count;
  rows_rr += other.rows_rr;
  rows_rc += other.rows_rc;
  rows_cc += other.rows_cc;
}

double Regression::coefficient() const {
  return change_change > 0 ? residual_change / change_change : 0;
}

double Regression::explained() const {
  return change_change > 0 ? residual_change * residual_change / change_change : 0;
}

double Regression::deviation() const {
  if (change_change <= 0 || count == 0) return std::numeric_limits<double>::infinity();
  const double by_row =
      rows_rr - 2 * coefficient() * rows_rc + coefficient() * coefficient() * rows_cc;
  return std::sqrt(std::max(variance() / change_change, by_row / (change_change * change_change)));
}

double Regression::variance() const {
  return std::max((residual_residual - explained()) / static_cast<double>(count),
                  kRoundingVariance);
}

bool Regression::shows() const {
  const double off = deviation();
  return off <= kVague && coefficient() >= kBeyondChance * off &&
         std::fabs(coefficient() - 1) <= kOffBy * off;
}

namespace {

/// One kind of step in all blocks.
class SmallSearch {
 public:
  explicit SmallSearch(Trials& trials) : trials_(trials), judge_(trials.judged().judge()) {}

  std::vector<SmallMistake> run() {
    const ArithmeticType type = judge_.arithmetic();
    if (type != ArithmeticType::kBF16 && type != ArithmeticType::kF16) return {};
    std::map<std::string, std::vector<size_t>> kinds;
    const auto& steps = trials_.judged().report().steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool whole = trials_.judged().value(i).complete() && steps[i].covers.empty();
      if (steps[i].verdict != StepVerdict::kOk || !whole) continue;
      SiteId kind = steps[i].site;
      kind.layer = -1;
      kinds[to_string(kind)].push_back(i);
    }
    std::vector<SmallMistake> found;
    for (const auto& [kind, members] : kinds) {
      if (auto mistake = best_of(members)) found.push_back(std::move(*mistake));
    }
    std::sort(found.begin(), found.end(), [](const SmallMistake& a, const SmallMistake& b) {
      return a.steps.front() < b.steps.front();
    });
    return found;
  }

 private:
  /// The form that explains most, over the steps that have it in them.
  std::optional<SmallMistake> best_of(const std::vector<size_t>& members) {
    std::map<std::string, SmallMistake> shown;
    std::map<std::string, SmallMistake> together;
    const std::set<std::string> hidden = hidden_at(members.front());
    if (hidden.empty()) return {};
    for (size_t i : members) {
      trials_.check_cancel();
      const StepResidual residual(judge_, trials_.judged().value(i));
      for (const Form* form : trials_.candidates(i)) {
        if (!hidden.contains(known_key(*form))) continue;
        const std::optional<Regression> regression = beside(residual, *form);
        if (!regression) continue;
        note(together[known_key(*form)], *form, i, *regression);
        if (regression->shows()) note(shown[known_key(*form)], *form, i, *regression);
      }
    }
    // One block may be too short a text to tell by, and all of them long enough.
    for (auto& [key, mistake] : together) {
      if (mistake.regression.shows()) shown[key] = std::move(mistake);
    }
    std::optional<SmallMistake> best;
    double most = 0;
    for (auto& [key, mistake] : shown) {
      if (mistake.regression.explained() <= most) continue;
      most = mistake.regression.explained();
      best = std::move(mistake);
    }
    if (best) add_rivals(*best);
    return best;
  }

  /// Another eps makes nearly what an eps outside of the root makes, if it is chosen for it.
  void add_rivals(SmallMistake& mistake) {
    std::map<std::string, SmallMistake> others;
    for (size_t i : mistake.steps) {
      const StepResidual residual(judge_, trials_.judged().value(i));
      for (const Form* form : trials_.candidates(i)) {
        if (form->numbers.size() != 1 || form->only_rounds) continue;
        const std::optional<Regression> regression = beside_a_number(residual, *form);
        if (regression) note(others[known_key(*form)], *form, i, *regression);
      }
    }
    const Regression& own = mistake.regression;
    const double least = own.explained() - kToldApart * own.variance();
    for (const auto& [key, other] : others) {
      if (other.steps.size() != mistake.steps.size() || other.regression.explained() < least) {
        continue;
      }
      mistake.rivals.push_back(other.forms.front());
    }
  }

  /// By the first of the usual numbers with which the form changes anything.
  std::optional<Regression> beside_a_number(const StepResidual& residual, const Form& form) {
    for (const double number : form.numbers[0].usual) {
      trials_.check_cancel();
      if (auto regression = beside(residual, form, {number})) return regression;
    }
    return {};
  }

  /// The forms with which the step would be round-off, too.
  std::set<std::string> hidden_at(size_t i) {
    std::set<std::string> result;
    const Fit& fit = trials_.judged().fit(i);
    for (const Form* form : trials_.candidates(i)) {
      if (!may_hide(*form)) continue;
      try {
        const AlignedValue& value = trials_.judged().value(i);
        const Edited edited = form->make({});
        const std::vector<int64_t> rows = judge_.rows_for_numbers(value, edited, fit, false);
        if (judge_.local_of(value, edited, rows) > kRatioBand * fit.envelope) continue;
        result.insert(known_key(*form));
      } catch (const Error&) {
        continue;  // an edit that cannot be made on this program
      }
    }
    return result;
  }

  static std::optional<Regression> beside(const StepResidual& residual, const Form& form,
                                          const std::vector<double>& numbers = {}) {
    try {
      const Regression regression = residual.beside(form.make(numbers));
      if (regression.change_change > 0) return regression;
    } catch (const Error&) {
      return {};
    }
    return {};
  }

  static void note(SmallMistake& mistake, const Form& form, size_t i,
                   const Regression& regression) {
    mistake.steps.push_back(i);
    mistake.forms.push_back(&form);
    mistake.regression.add(regression);
  }

  Trials& trials_;
  Judge& judge_;
};

}  // namespace

std::vector<SmallMistake> small_mistakes(Trials& trials) { return SmallSearch(trials).run(); }

}  // namespace mainstem
