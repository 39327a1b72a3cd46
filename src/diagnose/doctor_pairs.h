#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "diagnose/doctor_trials.h"

// Two mistakes in one chain: where values between are missing, several mistakes are judged together
// and none of them alone explains what is left.

namespace mainstem {

/// Two mistakes that explain a step together.
struct PairOfTrials {
  Trial first;   ///< in the reference
  Trial second;  ///< in the program that has the first; its fit is that of both
  Form form;     ///< what `second.form` points to
};

class Pairs {
 public:
  /// `trials` must outlive this object.
  explicit Pairs(Trials& trials) : trials_(trials) {}

  /// The pair that was found at another step, if it explains this one, too.
  std::unique_ptr<PairOfTrials> again(size_t step);
  /// `singles`: what was tried alone, those first that leave least. Null where no pair explains the
  /// step, or where the error is too near to round-off for two mistakes to be told from chance.
  std::unique_ptr<PairOfTrials> find(size_t step, const std::vector<Trial>& singles);

 private:
  struct Base;
  std::shared_ptr<Base> base_of(const Trial& first, size_t step) const;
  std::vector<std::unique_ptr<PairOfTrials>> on_top(const std::shared_ptr<Base>& base,
                                                    const Trial& first, size_t step);
  bool refine(PairOfTrials& pair, size_t step);
  bool both_needed(const PairOfTrials& pair, const std::vector<Trial>& singles) const;
  std::unique_ptr<PairOfTrials> keep(std::unique_ptr<PairOfTrials> pair);

  Trials& trials_;
  std::set<std::pair<std::string, std::string>> known_;  ///< keys of the forms of pairs found
  std::map<Site, int> in_vain_;                          ///< searches without a find
};

}  // namespace mainstem
