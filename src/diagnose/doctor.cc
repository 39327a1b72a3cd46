// doctor(): diff(), the causes, and what the whole model makes of them.

#include "mainstem/doctor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "diagnose/doctor_search.h"
#include "diagnose/known_faults.h"
#include "diagnose/known_roundings.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

/// Beyond this many causes nobody wants a pass for each.
constexpr size_t kMostPredictions = 6;

/// Runs the whole model with mistakes in it, to check that they account for all of the dump.
class Prediction {
 public:
  Prediction(const Model& model, JudgedDump& judged, const DiffOptions& options)
      : model_(model), judged_(judged), options_(options), reference_(judged.reference_of_last()) {}

  bool possible() const { return judged_.last_whole().has_value() && !reference_.empty(); }
  std::string site() const { return to_string(value().site); }

  /// ‖a − b‖ / ‖b‖ of the dump's last value with the reference's own.
  double now() const { return distance(value().data, reference_); }
  /// The user's last value beside that of a model with all these mistakes.
  std::optional<double> with_all(const std::vector<FoundCause>& causes) {
    const auto made = with_mistakes(causes, nullptr);
    if (!made) return {};
    return distance(value().data, *made);
  }
  /// What would be left of the difference to the reference, were this one mistake mended.
  std::optional<double> without(const std::vector<FoundCause>& causes, const FoundCause& mended) {
    if (causes.size() == 1) return 0.0;  // nothing is left but the reference
    const auto made = with_mistakes(causes, &mended);
    if (!made) return {};
    return distance(*made, reference_);
  }

 private:
  const AlignedValue& value() const { return judged_.value(*judged_.last_whole()); }

  double distance(std::span<const double> a, std::span<const double> b) const {
    if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
    return difference(value(), judged_.judge().compared(value()), a, b).relative();
  }

  std::vector<double> run(std::shared_ptr<const BoundProgram> bound) const {
    const SiteId site = value().site;
    if (!bound->program().find_value(site)) return {};
    std::vector<double> made;
    observe_whole(std::move(bound), judged_.aligned().inputs, {site}, {}, options_.threads,
                  options_.cancel, [&](const TraceEvent& event) { made = to_f64(event.value); });
    return made;
  }

  /// One mistake after the other, each looked up anew in the program as it is by then.
  std::optional<std::vector<double>> with_mistakes(const std::vector<FoundCause>& causes,
                                                   const FoundCause* mended) const {
    Program whole = model_.program();
    WeightSources sources = model_.weights();
    for (const FoundCause& found : causes) {
      if (&found == mended) continue;
      if (found.made.empty()) return {};  // nobody knows what the user's step does
      for (const MadeMistake& mistake : found.made) {
        const auto form =
            find_form(whole, sources, mistake.layer, mistake.encoder, mistake.cause, mistake.yours);
        if (!form || form->numbers.size() != mistake.numbers.size()) return {};
        Edited next = form->make(mistake.numbers);
        sources = merged(next.weights, sources);
        whole = std::move(next.program);
      }
    }
    try {
      return run(std::make_shared<BoundProgram>(whole, sources));
    } catch (const Error&) {
      return {};  // mistakes that cannot be made together
    }
  }

  const Model& model_;
  JudgedDump& judged_;
  const DiffOptions& options_;
  const std::vector<double>& reference_;
};

void predict(const Model& model, JudgedDump& judged, const DiffOptions& options,
             std::vector<FoundCause>& causes, DoctorReport& report) {
  const bool made = std::any_of(causes.begin(), causes.end(),
                                [](const FoundCause& each) { return !each.made.empty(); });
  if (!made || options.layers) return;
  Prediction prediction(model, judged, options);
  if (!prediction.possible()) return;
  report.predicted_site = prediction.site();
  report.total_now = prediction.now();
  report.total_predicted = prediction.with_all(causes);
  if (causes.size() > kMostPredictions) return;
  for (FoundCause& each : causes) {
    if (!each.made.empty()) each.cause.total_if_fixed = prediction.without(causes, each);
  }
}

}  // namespace

std::string_view name(CauseStatus status) {
  switch (status) {
    case CauseStatus::kProved:
      return "proved";
    case CauseStatus::kLikely:
      return "likely";
    case CauseStatus::kUnknown:
      return "unknown";
  }
  return {};
}

DoctorReport doctor(const Model& model, const Dump& dump, const DiffOptions& options) {
  JudgedDump judged(model, dump, options);
  DoctorReport report;
  if (judged.report().verdict != DiffVerdict::kIncomparable) {
    std::vector<FoundCause> causes = find_causes(judged, options);
    predict(model, judged, options, causes, report);
    for (FoundCause& each : causes) {
      Cause& cause = each.cause;
      if (!cause.known_fault.empty()) {  // somebody's, but in this family?
        const std::string& yours = cause.parameters.front().second;
        cause.known_fault = known_fault(cause.id, yours, model.family());
      }
      report.causes.push_back(std::move(cause));
    }
    for (Cause& each : known_roundings(judged, options)) report.causes.push_back(std::move(each));
  }
  report.diff = std::move(judged.report());
  return report;
}

}  // namespace mainstem
