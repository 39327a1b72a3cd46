// Every form of every cause in a tiny model of each family: the edited program is a program, and on
// its own inputs it differs from the right one exactly at the sites that the form names.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include "diagnose/causes_check.h"
#include "mainstem/model.h"
#include "mainstem/rng.h"
#include "support/golden_families.h"

namespace mainstem {
namespace {

constexpr int64_t kTokens = 11, kPadding = 2;

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
  if (has(form.yours, "another low_freq_factor") || has(form.yours, "another high_freq_factor")) {
    return "no pair of so narrow a head lies between the wavelengths";
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
  }
  return tried;
}

class CausesOfFamily : public ::testing::TestWithParam<std::string> {
 protected:
  CausesOfFamily()
      : model_(Model::load(testing::golden_families_folder() / GetParam(),
                           {.allow_unknown_keys = {}, .skip_tokenizer = true})),
        inputs_(inputs_for(model_.spec())) {}

  void expect_all(int layer, bool encoder) const {
    for (const Form& form : forms(model_.program(), model_.weights(), layer, encoder)) {
      EXPECT_EQ(form.layer, layer);
      EXPECT_FALSE(form.yours.empty() || form.reference.empty() || form.usual_place.empty() ||
                   form.fix.empty())
          << form.cause << ": " << form.yours;
      ASSERT_LE(form.numbers.size(), 1U);
      for (const auto& numbers : numbers_for(form)) {
        SCOPED_TRACE(testing::describe(form, numbers));
        std::shared_ptr<const BoundProgram> wrong;
        ASSERT_NO_THROW(wrong = testing::bind(form.make(numbers), model_.weights()));
        testing::expect_shown(form, numbers, testing::differences(model_.bound(), wrong, inputs_),
                              reason_for_no_effect(form, numbers) != nullptr);
      }
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

// A second mistake is looked for in a program that has one already.
TEST_P(CausesOfFamily, AFormFitsAProgramWithAnotherOneOrIsNoneOfIts) {
  for (int layer : {-1, 1}) {
    for (const Form& first : forms(model_.program(), model_.weights(), layer)) {
      const Edited edited = first.make(testing::usual(first));
      WeightSources sources = edited.weights;
      sources.insert(model_.weights().begin(), model_.weights().end());
      for (const Form& second : forms(edited.program, sources, layer)) {
        SCOPED_TRACE(testing::describe(first, {}) + ", then " + testing::describe(second, {}));
        const Edited both = second.make(testing::usual(second));
        EXPECT_NO_THROW(validate(both.program));
      }
    }
  }
}

// Products that absorb their neighbours in float32, and imitated arithmetics, run the same edits.
TEST_P(CausesOfFamily, EveryFormRunsInEveryArithmetic) {
  const auto logits = [&](const std::shared_ptr<const BoundProgram>& bound,
                          const SessionOptions& options) {
    Session session(bound, options);
    SequenceInput input = inputs_[0];
    input.sequence = session.add_sequence();
    return session.forward_all({&input, 1});
  };
  const auto finite = [](const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
  };
  for (int layer : {-1, 0}) {
    for (const Form& form : forms(model_.program(), model_.weights(), layer)) {
      const auto numbers = numbers_for(form).front();
      SCOPED_TRACE(testing::describe(form, numbers));
      const auto bound = testing::bind(form.make(numbers), model_.weights());
      const auto exact = logits(bound, {.compute = Compute::kF64, .threads = 1});
      const auto narrow = logits(bound, {.compute = Compute::kF32, .threads = 1});
      const auto imitated = logits(
          bound,
          {.compute = Compute::kF64, .threads = 1, .arithmetic = {.type = ArithmeticType::kBF16}});
      ASSERT_TRUE(finite(exact));
      EXPECT_TRUE(finite(imitated));
      EXPECT_LT(distance(narrow, exact), 1e-3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CausesOfFamily, ::testing::ValuesIn(testing::golden_families()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace mainstem
