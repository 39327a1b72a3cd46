#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "diagnose/causes.h"
#include "diagnose/checker_numbers.h"
#include "diagnose/local_errors.h"
#include "mainstem/session.h"

// What the tests of causes share.

namespace mainstem::testing {

inline std::shared_ptr<const BoundProgram> bind(Edited edited, WeightSources weights) {
  for (auto& [name, source] : edited.weights) weights[name] = source;
  return std::make_shared<BoundProgram>(std::move(edited.program), weights);
}

inline SiteValues values_of(const std::shared_ptr<const BoundProgram>& bound,
                            const std::vector<SequenceInput>& inputs) {
  return site_values(bound, inputs, 1, [] {});
}

/// The sites at which a wrong program differs, on its own inputs, from the right one; -1 where it
/// has no such site.
inline std::map<std::string, double> differences(const std::shared_ptr<const BoundProgram>& right,
                                                 const std::shared_ptr<const BoundProgram>& wrong,
                                                 const std::vector<SequenceInput>& inputs) {
  std::map<std::string, double> result;
  for (const LocalError& error : local_errors(right, inputs, values_of(wrong, inputs), 1, [] {})) {
    if (error.missing) result[to_string(error.site)] = -1;
    if (!(error.relative <= kStepSlack)) result[to_string(error.site)] = error.relative;
  }
  return result;
}

inline std::string describe(const Form& form, const std::vector<double>& numbers) {
  std::string text = form.cause + "@" + std::to_string(form.layer) + ": " + form.yours;
  for (double number : numbers) text += " " + std::to_string(number);
  return text;
}

/// It differs exactly where the form says. With `may_be_silent` it may also differ nowhere.
inline void expect_shown(const Form& form, const std::vector<double>& numbers,
                         const std::map<std::string, double>& found, bool may_be_silent = false) {
  SCOPED_TRACE(describe(form, numbers));
  std::set<std::string> expected;
  for (const SiteId& site : form.shows) expected.insert(to_string(site));
  EXPECT_FALSE(expected.empty());
  if (found.empty() && may_be_silent) return;
  for (const auto& [site, difference] : found) {
    EXPECT_TRUE(expected.contains(site)) << site << " differs by " << difference;
  }
  for (const std::string& site : expected) {
    EXPECT_TRUE(found.contains(site)) << site << " does not differ";
  }
}

/// The first form of a cause whose `yours` holds a text.
inline Form form_of(const std::vector<Form>& forms, const std::string& cause,
                    const std::string& part = {}) {
  for (const Form& form : forms) {
    if (form.cause == cause && form.yours.find(part) != std::string::npos) return form;
  }
  ADD_FAILURE() << "no form of " << cause << " with \"" << part << '"';
  return {};
}

/// The number that --break takes for each that the form leaves open.
inline std::vector<double> usual(const Form& form) {
  std::vector<double> numbers;
  for (const FreeNumber& number : form.numbers) numbers.push_back(number.usual.front());
  return numbers;
}

}  // namespace mainstem::testing
