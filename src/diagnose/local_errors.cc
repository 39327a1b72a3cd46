#include "diagnose/local_errors.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "diagnose/checker_numbers.h"

namespace mainstem {
namespace {

/// Values that stand on something the other side does not have.
std::set<ValueId> values_without_ground(const Program& program, const SiteValues& other) {
  std::set<ValueId> named_there;
  std::set<ValueId> named;
  for (const NamedValue& each : program.sites) {
    named.insert(each.value);
    if (other.contains(to_string(each.site))) named_there.insert(each.value);
  }
  std::set<ValueId> bad;
  for (const Step& step : program.steps) {
    bool grounded = true;
    for (ValueId input : step.inputs) grounded &= !bad.contains(input);
    const bool restored = named_there.contains(step.output);
    const bool absent = named.contains(step.output) && !restored;
    if ((!grounded && !restored) || absent) bad.insert(step.output);
  }
  return bad;
}

}  // namespace

SiteValues site_values(const std::shared_ptr<const BoundProgram>& bound,
                       std::span<const SequenceInput> inputs, int threads,
                       const std::function<void()>& each_site) {
  Session session(
      bound, {.compute = Compute::kF64, .threads = threads, .sites = all_sites(bound->program())});
  std::vector<SequenceInput> own(inputs.begin(), inputs.end());
  for (SequenceInput& input : own) input.sequence = session.add_sequence();
  SiteValues values;
  session.forward_all(own, [&](const TraceEvent& event) {
    each_site();
    values[to_string(event.site)] = to_f64(event.value);
  });
  return values;
}

std::vector<LocalError> local_errors(const std::shared_ptr<const BoundProgram>& right,
                                     std::span<const SequenceInput> inputs, const SiteValues& other,
                                     int threads, const std::function<void()>& each_site) {
  const Program& program = right->program();
  const std::set<ValueId> groundless = values_without_ground(program, other);
  Session session(right,
                  {.compute = Compute::kF64, .threads = threads, .sites = all_sites(program)});
  std::vector<SequenceInput> own(inputs.begin(), inputs.end());
  for (SequenceInput& input : own) input.sequence = session.add_sequence();

  std::vector<LocalError> errors;
  std::set<ValueId> judged;
  const auto judge = [&](const TraceEvent& event) {
    each_site();
    if (event.site.site == Site::kTokens) return;
    const ValueId value = *program.find_value(event.site);
    const auto found = other.find(to_string(event.site));
    LocalError error{event.site};
    if (!judged.insert(value).second) {
      // A later name of a value means what the earlier one was given.
      if (found == other.end() || !all_finite(found->second)) return;
      error.relative = distance(found->second, event.value.as<double>());
      if (error.relative != 0) errors.push_back(error);
      return;
    }
    if (found == other.end()) {
      error.missing = true;
      errors.push_back(error);
      return;
    }
    const Step& step = program.step(program.value(value).producer);
    for (ValueId input : step.inputs) {
      if (groundless.contains(input)) return;
    }
    // Two overflows cannot be told apart; the first of them was judged on finite inputs.
    if (!all_finite(found->second) && !all_finite(event.value.as<double>())) return;
    error.relative = distance(found->second, event.value.as<double>());
    errors.push_back(error);
  };
  const auto replace = [&](const TraceEvent& event, void* data) {
    const auto found = other.find(to_string(event.site));
    if (found == other.end()) return;
    if (static_cast<int64_t>(found->second.size()) != event.value.count()) return;
    std::copy(found->second.begin(), found->second.end(), static_cast<double*>(data));
  };
  session.forward_all(own, judge, replace);
  return errors;
}

}  // namespace mainstem
