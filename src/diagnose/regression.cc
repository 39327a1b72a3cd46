#include "diagnose/regression.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace mainstem {
namespace {

/// So many standard deviations are no chance, however many forms are tried.
constexpr double kBeyondChance = 8;
/// The coefficient may be off by so many of its own standard deviations, which must be small.
constexpr double kOffBy = 4;
constexpr double kVague = 0.1;
/// Rounding to the nearest leaves a twelfth of a squared unit; a fit that leaves less is luck.
constexpr double kRoundingVariance = 1.0 / 12;
/// Numbers far below the others of the value have an error that their own size does not show.
constexpr double kSmallestShare = 1.0 / 8;

double size_of(std::span<const double> values) {
  double sum = 0;
  for (double v : values) sum += std::isfinite(v) ? v * v : 0;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

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

StepResidual::StepResidual(Judge& judge, const AlignedValue& value)
    : judge_(judge),
      value_(value),
      right_(made_by(judge.replay_of(value))),
      smallest_(kSmallestShare * size_of(right_)) {}

std::vector<double> StepResidual::made_by(const Replay& replay) const {
  const DiffOptions& options = judge_.options();
  return replay.run({}, {}, options.threads, options.cancel);
}

Regression StepResidual::beside(const Edited& edited) const {
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

}  // namespace mainstem
