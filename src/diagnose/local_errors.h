#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mainstem/program.h"
#include "mainstem/session.h"

namespace mainstem {

/// What a program computed at each site, in double, row-major.
using SiteValues = std::map<std::string, std::vector<double>>;

/// How one site differs from what the right step makes of the very same inputs.
struct LocalError {
  SiteId site;
  double relative = 0;   ///< ‖y − f(own inputs)‖₂ / ‖f(own inputs)‖₂
  bool missing = false;  ///< the other side has no such site
};

/// Runs `right` in double over the inputs and puts the other side's value in the place of each
/// named value once it was compared, so that every step is judged on the other side's own inputs.
/// A step behind a missing value is not judged. Sites that name the same value are judged once, and
/// again only where the other side has another value under the later name.
/// `each_site` is called for every site and may throw to stop.
std::vector<LocalError> local_errors(const std::shared_ptr<const BoundProgram>& right,
                                     std::span<const SequenceInput> inputs, const SiteValues& other,
                                     int threads, const std::function<void()>& each_site);

/// All values of a pass in double. `each_site` as above.
SiteValues site_values(const std::shared_ptr<const BoundProgram>& bound,
                       std::span<const SequenceInput> inputs, int threads,
                       const std::function<void()>& each_site);

}  // namespace mainstem
