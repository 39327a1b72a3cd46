// Every form of every cause in a tiny model of each family: the edited program is a program, and on
// its own inputs it differs from the right one exactly at the sites that the form names.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "diagnose/causes.h"
#include "diagnose/causes/place.h"
#include "diagnose/checker_numbers.h"
#include "diagnose/local_errors.h"
#include "mainstem/model.h"
#include "mainstem/rng.h"

namespace mainstem {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTokens = 11, kPadding = 2;

fs::path golden_folder() { return fs::path(MAINSTEM_TEST_DATA) / "golden" / "families"; }

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Two sequences, the second padded on the left, with token types and encoder tokens.
std::vector<SequenceInput> inputs_for(const ModelSpec& spec) {
  Generator generator(5);
  std::vector<SequenceInput> inputs(2);
  for (SequenceInput& input : inputs) {
    input.tokens.resize(kTokens);
    generator.randint(input.tokens, 0, spec.vocab_size);
    if (spec.stack.token_types > 0) {
      input.token_types.resize(kTokens);
      generator.randint(input.token_types, 0, spec.stack.token_types);
    }
    if (spec.encoder) {
      input.encoder_tokens.resize(kTokens - 2);
      generator.randint(input.encoder_tokens, 0, spec.vocab_size);
    }
  }
  inputs[1].left_padding = kPadding;
  if (spec.encoder) inputs[1].encoder_left_padding = kPadding;
  return inputs;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Why a form changes nothing on these inputs, or null.
const char* reason_for_no_effect(const Form& form, const std::vector<double>& numbers) {
  if (has(form.yours, "later chunk") || has(form.yours, "restart at 0")) {
    return "one pass without a cache before it";
  }
  if (form.cause == "attn.window" && !numbers.empty() && numbers[0] >= kTokens) {
    return "no more tokens than the window";
  }
  return nullptr;
}

/// What to try for the numbers that a form leaves open.
std::vector<std::vector<double>> numbers_for(const Form& form) {
  if (form.numbers.empty()) return {{}};
  std::vector<std::vector<double>> tried;
  for (const FreeNumber& number : form.numbers) {
    // Without eps a row of zeros, as padding has, is no number.
    if (form.cause != "norm.eps") tried.push_back({number.usual.front()});
    tried.push_back({number.usual.back()});
    if (form.cause == "attn.window") tried.push_back({4});
  }
  return tried;
}

class CausesOfFamily : public ::testing::TestWithParam<std::string> {
 protected:
  CausesOfFamily()
      : model_(Model::load(golden_folder() / GetParam(),
                           {.allow_unknown_keys = {}, .skip_tokenizer = true})),
        inputs_(inputs_for(model_.spec())) {}

  /// The sites at which the edited program differs on its own inputs, with the difference.
  std::map<std::string, double> differences(Edited edited) const {
    WeightSources weights = model_.weights();
    for (auto& [name, source] : edited.weights) weights[name] = source;
    const auto bound = std::make_shared<BoundProgram>(std::move(edited.program), weights);
    const auto nothing = [] {};
    std::map<std::string, double> result;
    for (const LocalError& error : local_errors(
             model_.bound(), inputs_, site_values(bound, inputs_, 1, nothing), 1, nothing)) {
      if (error.missing) result[to_string(error.site)] = -1;
      if (!(error.relative <= kStepSlack)) result[to_string(error.site)] = error.relative;
    }
    return result;
  }

  void expect_shown(const Form& form, const std::vector<double>& numbers) const {
    std::string what = form.cause + "@" + std::to_string(form.layer) + ": " + form.yours;
    for (double number : numbers) what += " " + std::to_string(number);
    SCOPED_TRACE(what);
    std::set<std::string> expected;
    for (const SiteId& site : form.shows) expected.insert(to_string(site));
    EXPECT_FALSE(expected.empty());
    std::map<std::string, double> found;
    ASSERT_NO_THROW(found = differences(form.make(numbers)));
    if (found.empty() && reason_for_no_effect(form, numbers) != nullptr) return;
    for (const auto& [site, difference] : found) {
      EXPECT_TRUE(expected.contains(site)) << site << " differs by " << difference;
    }
    for (const std::string& site : expected) {
      EXPECT_TRUE(found.contains(site)) << site << " does not differ";
    }
  }

  void expect_all(int layer, bool encoder) const {
    for (const Form& form : forms(model_.program(), model_.weights(), layer, encoder)) {
      EXPECT_EQ(form.layer, layer);
      EXPECT_FALSE(form.yours.empty() || form.reference.empty() || form.usual_place.empty() ||
                   form.fix.empty())
          << form.cause << ": " << form.yours;
      ASSERT_LE(form.numbers.size(), 1U);
      for (const auto& numbers : numbers_for(form)) expect_shown(form, numbers);
    }
  }

  Model model_;
  std::vector<SequenceInput> inputs_;
};

TEST_P(CausesOfFamily, EveryFormShowsWhereItSays) {
  for (bool encoder : {false, true}) {
    if (encoder && !model_.spec().encoder) continue;
    const auto& blocks = (encoder ? *model_.spec().encoder : model_.spec().stack).blocks;
    for (int layer = -1; layer < static_cast<int>(blocks.size()); ++layer) {
      expect_all(layer, encoder);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CausesOfFamily, ::testing::ValuesIn(families()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace mainstem
