#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainstem/diff.h"

namespace mainstem {

enum class CauseStatus : uint8_t {
  kProved,   ///< with the mistake in it, the reference makes the user's values but for round-off
  kLikely,   ///< it removes at least 99 % of the local error
  kUnknown,  ///< none of the known mistakes
};
std::string_view name(CauseStatus status);  ///< "proved", "likely", "unknown"

/// A mistake that was tried and what it left of the local error.
struct TriedCause {
  std::string id, what;
  double left = 0;
};

/// Why steps are wrong.
struct Cause {
  std::string id;                  ///< "rope.pairing", "unknown"
  std::vector<std::string> sites;  ///< "blocks.*.q_rot"
  std::vector<int> layers;         ///< blocks; empty: outside of them
  CauseStatus status = CauseStatus::kUnknown;
  double local = 0;     ///< error of the worst of the steps before
  double left = 0;      ///< what the mistake leaves of it
  double envelope = 0;  ///< what sound implementations leave
  /// "yours", "reference" and numbers that were solved for.
  std::vector<std::pair<std::string, std::string>> parameters;
  std::string usual_place;        ///< where in code the mistake is usually found
  std::string fix;                ///< one sentence
  std::string known_fault;        ///< of which well-known implementation, or empty
  std::string shape;              ///< of the error, where the cause is unknown
  std::vector<TriedCause> tried;  ///< the best candidates of an unknown cause
  /// Other mistakes that make the same values: this dump does not tell them from the one named.
  std::vector<TriedCause> same_values = {};
  /// What would be left of the last value's difference to the reference if only this were fixed,
  /// by a run of the whole model with all other causes in it.
  std::optional<double> total_if_fixed = {};
};

struct DoctorReport {
  DiffReport diff;
  std::vector<Cause> causes;  ///< in program order of their first step
  /// A run of the whole model with all causes in it, beside the dump: of the last value of the
  /// dump, the difference to the reference, and to that run. Empty where a cause is unknown.
  std::string predicted_site = {};
  std::optional<double> total_now = {}, total_predicted = {};
};

/// diff(), then for each wrong step the known mistakes are replayed on the user's own inputs.
DoctorReport doctor(const Model& model, const Dump& dump, const DiffOptions& options = {});

}  // namespace mainstem
