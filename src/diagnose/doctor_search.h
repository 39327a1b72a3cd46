#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "diagnose/causes.h"
#include "diagnose/diff_model.h"
#include "mainstem/doctor.h"

namespace mainstem {

/// A mistake as it was found, to be made again in the whole program.
struct MadeMistake {
  std::string cause, yours;
  int layer = -1;
  bool encoder = false;
  std::vector<double> numbers;
};

/// A cause and the mistakes behind it; none where the cause is unknown.
struct FoundCause {
  std::string key;
  Cause cause = {};
  std::set<size_t> steps = {};
  std::vector<MadeMistake> made = {};
  std::set<int> layers = {};  ///< blocks beside those of the steps
  size_t order = 0;           ///< among those found
};

/// The name of the same site in every block: "blocks.*.q_rot".
std::string name_in_every_block(SiteId site);

/// Explains every wrong step of a judged dump, and notes in its report what is no mistake.
std::vector<FoundCause> find_causes(JudgedDump& judged, const DiffOptions& options);

}  // namespace mainstem
