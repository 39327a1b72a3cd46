// Every known mistake, made on the lesson's block and on a small Llama: the checks that fail are
// the ones that look at what was broken, and no others.

#include <gtest/gtest.h>

#include <set>

#include "lesson/golden.h"
#include "mainstem/check.h"
#include "mainstem/error.h"
#include "support/random_model.h"

namespace mainstem::lesson {
namespace {

using Checks = std::set<std::string>;

/// The lesson's block with two key/value heads for four query heads.
testing::TestModel grouped_block() {
  BlockSpec spec = decoder_block_spec(kSmallBlock);
  spec.attention.kv_heads = 2;
  return testing::make_block(spec, 1);
}

testing::TestModel small_llama() { return testing::make_model(testing::small_decoder(), 2); }

Checks failed(const BrokenModel& model) {
  Checks ids;
  for (const CheckResult& result : check(model.program, model.weights, {.threads = 1})) {
    if (result.status == CheckStatus::kFailed) ids.insert(result.id);
  }
  return ids;
}

/// What a mistake breaks. The first is the check that is meant for it; the others see it because
/// it really breaks what they promise, too.
struct Expectation {
  std::string mistake;
  std::vector<std::string> checks;
};

const std::vector<Expectation>& expectations() {
  static const std::vector<Expectation> all = {
      {"norm.eps", {"zero_input", "norms"}},
      {"norm.weight_swapped", {"norms"}},
      {"norm.missing", {"norm_weights", "norms", "weights"}},      // nobody reads them
      {"norm.placement", {"norms", "residual", "residual_sums"}},  // the sums are normed
      {"rope.pairing", {"rotary"}},
      {"rope.base", {"rotary"}},
      {"rope.missing", {"rotary"}},
      {"attn.scale", {"attention"}},
      {"attn.causal_mask", {"causal", "decode", "attention"}},  // the cache has no later keys
      {"attn.gqa_mapping", {"attention"}},
      {"attn.head_merge", {"attention"}},
      {"mlp.activation", {"mlp"}},
      {"mlp.gate_value_swapped", {"mlp"}},
      {"residual.missing", {"residual", "residual_sums"}},
      {"residual.doubled", {"residual", "residual_sums"}},
  };
  return all;
}

TEST(LessonMistakes, EveryKnownOneIsExpectedHere) {
  std::vector<std::string> known, expected;
  for (const MistakeInfo& mistake : known_mistakes()) known.push_back(mistake.id);
  for (const Expectation& each : expectations()) expected.push_back(each.mistake);
  EXPECT_EQ(known, expected);
}

TEST(LessonMistakes, WithoutOneEveryCheckPasses) {
  for (const testing::TestModel& model : {grouped_block(), small_llama()}) {
    int passed = 0;
    for (const CheckResult& result : check(model.program(), model.sources, {.threads = 1})) {
      EXPECT_NE(result.status, CheckStatus::kFailed) << result.id << ": " << result.detail;
      if (result.status == CheckStatus::kOk) ++passed;
    }
    EXPECT_EQ(passed, model.is_block ? 12 : 15);
  }
}

TEST(LessonMistakes, OnTheBlockTheRightChecksFail) {
  const testing::TestModel model = grouped_block();
  for (const auto& [mistake, checks] : expectations()) {
    if (mistake.starts_with("rope.")) {  // the lesson's block has no rotary positions
      EXPECT_THROW(make_mistake(model.program(), {mistake, -1}), Error) << mistake;
      continue;
    }
    const Program broken = make_mistake(model.program(), {mistake, -1});
    EXPECT_EQ(failed(broken, model.sources), Checks(checks.begin(), checks.end())) << mistake;
  }
}

TEST(LessonMistakes, OnASmallLlamaTheRightChecksFail) {
  const testing::TestModel model = small_llama();
  for (const auto& [mistake, checks] : expectations()) {
    const Program broken = make_mistake(model.program(), {mistake, -1});
    EXPECT_EQ(failed(broken, model.sources), Checks(checks.begin(), checks.end())) << mistake;
  }
}

TEST(LessonMistakes, InOneBlockOfTwoIsEnough) {
  const testing::TestModel model = small_llama();
  for (const auto& [mistake, checks] : expectations()) {
    const Program broken = make_mistake(model.program(), {mistake, 1});
    EXPECT_EQ(failed(broken, model.sources), Checks(checks.begin(), checks.end())) << mistake;
    for (const CheckResult& result : check(broken, model.sources, {.threads = 1})) {
      EXPECT_EQ(result.detail.find("blocks.0"), std::string::npos)
          << mistake << " in block 1: " << result.id << ": " << result.detail;
    }
  }
}

}  // namespace
}  // namespace mainstem::lesson
