#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mainstem/session.h"

// How far each step of somebody's run is from the step's definition on the run's own inputs, beside
// how far implementations of its arithmetic may be.

namespace mainstem::testing {

using SiteData = std::map<std::string, std::vector<double>>;

struct StepRatio {
  std::string site;
  double local = 0;      ///< |run - f(its inputs)| / |f(its inputs)|
  double envelope = 0;   ///< the same of the variant that is farthest
  double ratio = 0;      ///< of the two
  double row_ratio = 0;  ///< the largest over rows (a token; of one head, where there are some)
};

/// What every step that the run has makes of the run's own inputs (chains of steps, where values
/// between are missing). Masked entries of causal scores are 0.
inline SiteData replay(const std::shared_ptr<const BoundProgram>& bound, const SequenceInput& input,
                       const SiteData& run, const Arithmetic& arithmetic, int threads = 1) {
  Session session(bound, {.compute = Compute::kF64,
                          .threads = threads,
                          .sites = all_sites(bound->program()),
                          .arithmetic = arithmetic});
  SequenceInput own = input;
  own.sequence = session.add_sequence();
  SiteData made;
  const auto collect = [&](const TraceEvent& event) {
    const std::string name = to_string(event.site);
    if (!run.contains(name) || event.value.dtype() == DType::kI64) return;
    std::vector<double> values = to_f64(event.value);
    if (event.site.site == Site::kScores) {
      const auto t = static_cast<size_t>(event.value.shape()[2]);
      for (size_t i = 0; i < values.size(); ++i) {
        if (i % t > i / t % t) values[i] = 0;
      }
    }
    made[name] = std::move(values);
  };
  const auto patch = [&](const TraceEvent& event, void* data) {
    const auto found = run.find(to_string(event.site));
    if (found == run.end()) return;
    std::copy(found->second.begin(), found->second.end(), static_cast<double*>(data));
  };
  session.forward_all({&own, 1}, collect, patch);
  return made;
}

inline double distance_of(const double* a, const double* b, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

inline double quotient(double local, double envelope) { return local == 0 ? 0 : local / envelope; }

/// `widths` holds the length of a row of each site.
inline std::vector<StepRatio> step_ratios(const std::shared_ptr<const BoundProgram>& bound,
                                          const SequenceInput& input, const SiteData& run,
                                          const std::map<std::string, size_t>& widths,
                                          ArithmeticType type, int threads = 1) {
  const SiteData exact = replay(bound, input, run, {}, threads);
  std::vector<SiteData> variants;
  for (int v = 0; v < arithmetic_variants(type); ++v) {
    variants.push_back(replay(bound, input, run, {type, v}, threads));
  }
  std::vector<StepRatio> ratios;
  std::set<ValueId> judged;  // a value's second name would be compared with itself
  for (const NamedValue& named : bound->program().sites) {
    const std::string site = to_string(named.site);
    if (!exact.contains(site) || !judged.insert(named.value).second) continue;
    const std::vector<double>& want = exact.at(site);
    std::vector<double> mine = run.at(site);
    if (named.site.site == Site::kScores) {
      for (size_t i = 0; i < mine.size(); ++i) {
        if (want[i] == 0) mine[i] = 0;  // masked
      }
    }
    const auto largest = [&](size_t at, size_t count) {
      double most = 0;
      for (const SiteData& variant : variants) {
        most = std::max(most, distance_of(variant.at(site).data() + at, want.data() + at, count));
      }
      return most;
    };
    const std::vector<double> zero(want.size());
    const double size = distance_of(want.data(), zero.data(), want.size());
    StepRatio step{.site = site,
                   .local = distance_of(mine.data(), want.data(), want.size()) / size,
                   .envelope = largest(0, want.size()) / size};
    step.ratio = quotient(step.local, step.envelope);
    const size_t width = widths.at(site);
    for (size_t at = 0; at < want.size(); at += width) {
      const double local = distance_of(mine.data() + at, want.data() + at, width);
      step.row_ratio = std::max(step.row_ratio, quotient(local, largest(at, width)));
    }
    ratios.push_back(step);
  }
  return ratios;
}

}  // namespace mainstem::testing
