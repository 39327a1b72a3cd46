#include "diagnose/doctor_casts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr std::string_view kBeforeWeight = "round(x̂) · w", kBehindWeight = "round(x̂ · w)";
/// Of the values of all norms: so many are equal under the order that the dump has, but for sums in
/// another order that fall on the other side of a tie, and no more than so many under the other.
constexpr double kEqual = 0.995, kOther = 0.95;

/// Values that an order of casts gives bit for bit.
struct Equal {
  size_t equal = 0, all = 0;
  double share() const {
    return all == 0 ? 0 : static_cast<double>(equal) / static_cast<double>(all);
  }
};

void count(Trials& trials, const Form& form, size_t step, Equal& equal) {
  Judge& judge = trials.judged().judge();
  const AlignedValue& value = trials.judged().value(step);
  const DiffOptions& options = judge.options();
  const std::vector<double> made =
      judge.replay_of(value, form.make({})).run({}, {}, options.threads, options.cancel);
  if (made.size() != value.data.size()) return;
  const Compared& compared = judge.compared(value);
  const auto width = static_cast<size_t>(compared.layout().width);
  for (int64_t row = 0; row < compared.layout().rows; ++row) {
    if (!compared.row(row)) continue;
    for (size_t i = static_cast<size_t>(row) * width; i < static_cast<size_t>(row + 1) * width;
         ++i) {
      equal.equal += stored_in(judge.arithmetic(), made[i]) == value.data[i] ? 1 : 0;
      ++equal.all;
    }
  }
}

}  // namespace

std::string order_of_casts(Trials& trials) {
  const ArithmeticType type = trials.judged().judge().arithmetic();
  if (type != ArithmeticType::kBF16 && type != ArithmeticType::kF16) return {};
  const std::string in_type = fmt::format(", in {}", name(type));
  Equal before, behind;
  const auto& steps = trials.judged().report().steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    trials.check_cancel();
    if (steps[i].verdict != StepVerdict::kOk || !steps[i].covers.empty()) continue;
    if (!trials.judged().value(i).complete()) continue;
    const std::vector<const Form*> candidates = trials.candidates(i);
    for (const std::string_view order : {kBeforeWeight, kBehindWeight}) {
      // A norm stands in more than one form: alone, and with the others of its block.
      const auto form = std::find_if(candidates.begin(), candidates.end(), [&](const Form* each) {
        return each->cause == "norm.cast_order" && each->yours.starts_with(order) &&
               each->yours.ends_with(in_type);
      });
      if (form == candidates.end()) continue;
      try {
        count(trials, **form, i, order == kBeforeWeight ? before : behind);
      } catch (const Error&) {
        continue;  // a norm that cannot be changed
      }
    }
  }
  const bool first = before.share() > behind.share();
  const Equal& equal = first ? before : behind;
  const Equal& other = first ? behind : before;
  if (equal.share() < kEqual || other.share() > kOther) return {};
  return fmt::format(
      "norm.cast_order: {:.1f} % of the norms' values are {} bit for bit, {:.1f} % {}; both are "
      "sound, and the code that trained the model has one of them (Llama's rounds x̂ first, Gemma's "
      "last)",
      100 * equal.share(), first ? kBeforeWeight : kBehindWeight, 100 * other.share(),
      first ? kBehindWeight : kBeforeWeight);
}

}  // namespace mainstem
