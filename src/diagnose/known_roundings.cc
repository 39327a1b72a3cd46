#include "diagnose/known_roundings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "diagnose/causes.h"
#include "diagnose/doctor_search.h"
#include "diagnose/replay.h"

namespace mainstem {
namespace {

/// A rounding that accounts for this share of the squared error is proved: 99 % of the error is
/// gone.
constexpr double kProved = 0.9999;
/// Printed numbers have an error of their own, and fall to another side of a step now and then.
constexpr double kLikely = 0.75;
constexpr double kFewest = 32;  // numbers to tell anything by

/// Squared errors of the right step and of the one with the rounding in it.
struct Sums {
  double right = 0, fault = 0, size = 0, count = 0;
};

class Search {
 public:
  Search(JudgedDump& judged, const DiffOptions& options)
      : judged_(judged), judge_(judged.judge()), options_(options) {
    for (size_t i = 0; i < judged.report().steps.size(); ++i) {
      at_.emplace(judge_.right().find_value(judged.value(i).site).value_or(kNoId), i);
    }
  }

  std::vector<Cause> run() {
    const auto blocks = static_cast<int>(judge_.right().spec.stack.blocks.size());
    for (int layer = 0; layer < blocks; ++layer) {
      for (const Form& form : forms(judge_.right(), judge_.weights(), layer)) {
        if (!form.known_fault.empty() && form.numbers.empty()) try_form(form);
      }
    }
    std::vector<Cause> causes;
    for (const auto& [key, found] : found_) {
      const Sums& sums = found.sums;
      if (sums.count < kFewest || !(sums.right > 0)) continue;
      const double share = 1 - sums.fault / sums.right;
      if (share >= kLikely) causes.push_back(cause_of(found, share));
    }
    return causes;
  }

 private:
  struct Found {
    Form form;
    Sums sums;
    std::set<int> layers;
    std::set<std::string> sites;
    double envelope = 0;
  };

  /// The first value that the dump has of what the mistake changes, if element-wise steps alone lie
  /// between it and the dump's values before it, and no step is wrong there.
  std::optional<size_t> target_of(const Form& form, std::set<size_t>& inputs) const {
    std::set<ValueId> changed;
    for (const SiteId& site : form.shows) {
      if (const auto value = judge_.right().find_value(site)) changed.insert(*value);
    }
    for (const auto& [value, i] : at_) {
      if (judged_.value(i).site.layer != form.layer) continue;
      if (judged_.report().steps[i].verdict != StepVerdict::kOk) continue;
      inputs.clear();
      std::set<ValueId> made;
      if (!collect(value, inputs, made)) continue;
      const bool passes = std::any_of(made.begin(), made.end(),
                                      [&](ValueId each) { return changed.contains(each); });
      if (passes) return i;
    }
    return {};
  }

  /// What the value is made of: steps of the dump, and the values made on the way.
  bool collect(ValueId value, std::set<size_t>& inputs, std::set<ValueId>& made) const {
    const Step& step = judge_.right().step(judge_.right().value(value).producer);
    const bool element_wise = step.op == Op::kActivation || step.op == Op::kMultiply ||
                              step.op == Op::kAdd || step.op == Op::kScale;
    if (!element_wise) return false;
    made.insert(value);
    return std::all_of(step.inputs.begin(), step.inputs.end(), [&](ValueId input) {
      const auto found = at_.find(input);
      if (found == at_.end()) return collect(input, inputs, made);
      inputs.insert(found->second);
      return true;
    });
  }

  void try_form(const Form& form) {
    std::set<size_t> inputs;
    const std::optional<size_t> target = target_of(form, inputs);
    if (!target) return;
    const AlignedValue& value = judged_.value(*target);
    // What the dump does not tell is nothing here; it is not compared.
    Aligned ground{.inputs = judged_.aligned().inputs};
    std::vector<uint8_t> known = value.known;
    known.resize(value.data.size(), 1);
    for (const size_t i : inputs) {
      AlignedValue input = judged_.value(i);
      if (input.shape != value.shape) return;
      for (size_t e = 0; e < input.known.size(); ++e) {
        if (input.known[e] != 0) continue;
        known[e] = 0;
        input.data[e] = 0;
      }
      input.known.clear();
      ground.values.push_back(std::move(input));
    }
    const std::vector<double> right = replay(ground, judge_.right(), judge_.weights(), value.site);
    const Edited edited = form.make({});
    const std::vector<double> fault =
        replay(ground, edited.program, merged(edited.weights, judge_.weights()), value.site);
    if (right.size() != value.data.size() || fault.size() != value.data.size()) return;
    Found& found = found_[form.cause + "|" + form.yours];
    for (size_t e = 0; e < value.data.size(); ++e) {
      if (known[e] == 0 || !std::isfinite(value.data[e])) continue;
      const auto slack = value.printed_error.empty() ? 0.0 : double{value.printed_error[e]};
      const auto off = [&](double made) {
        const double error = std::max(0.0, std::fabs(value.data[e] - made) - slack);
        return error * error;
      };
      found.sums.right += off(right[e]);
      found.sums.fault += off(fault[e]);
      found.sums.size += right[e] * right[e];
      found.sums.count += 1;
    }
    found.form = form;
    found.envelope = std::max(found.envelope, judged_.fit(*target).envelope);
    found.layers.insert(form.layer);
    found.sites.insert(name_in_every_block(value.site));
  }

  std::vector<double> replay(const Aligned& aligned, const Program& program,
                             const WeightSources& weights, const SiteId& site) const {
    const DumpGround ground(aligned);
    return Replay(program, weights, ground, site).run({}, {}, options_.threads, options_.cancel);
  }

  static Cause cause_of(const Found& found, double share) {
    Cause cause;
    cause.id = found.form.cause;
    cause.sites.assign(found.sites.begin(), found.sites.end());
    cause.layers.assign(found.layers.begin(), found.layers.end());
    cause.status = share >= kProved ? CauseStatus::kProved : CauseStatus::kLikely;
    cause.local = std::sqrt(found.sums.right / found.sums.size);
    cause.left = std::sqrt(found.sums.fault / found.sums.size);
    cause.envelope = found.envelope;
    cause.parameters = {{"yours", found.form.yours}, {"reference", found.form.reference}};
    cause.usual_place = "the program itself; its envelope allows this, and no step is wrong by it";
    cause.fix = "Nothing to mend on your side.";
    cause.known_fault = found.form.known_fault;
    return cause;
  }

  JudgedDump& judged_;
  Judge& judge_;
  const DiffOptions& options_;
  std::map<ValueId, size_t> at_;
  std::map<std::string, Found> found_;
};

}  // namespace

std::vector<Cause> known_roundings(JudgedDump& judged, const DiffOptions& options) {
  // Of programs whose type no other has.
  if (judged.report().arithmetic != ArithmeticType::kQ8Act) return {};
  return Search(judged, options).run();
}

}  // namespace mainstem
