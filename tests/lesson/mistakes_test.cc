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

/// Where a mistake can be made: in the lesson's block (LayerNorm is not in it, nor rotary
/// positions), in the blocks of a Llama (which has no biases), outside of its blocks.
enum Where : unsigned { kNowhere = 0, kBlock = 1, kLlama = 2, kBoth = 3, kOutside = 4 };

/// What a mistake breaks. The first is the check that is meant for it; the others see it because
/// it really breaks what they promise, too.
struct Expectation {
  std::string mistake;
  Where where;
  std::vector<std::string> checks = {};
};

const std::vector<Expectation>& expectations() {
  static const std::vector<Expectation> all = {
      {"input.tokens", kOutside, {"embedding"}},
      {"embed.scale", kOutside, {"embedding"}},
      {"embed.position_offset", kNowhere},
      {"embed.position_kind", kNowhere},
      {"embed.token_type", kNowhere},
      {"norm.eps", kBoth, {"zero_input", "norms"}},
      {"norm.eps_outside_root", kBoth, {"norms"}},
      {"norm.unbiased_variance", kNowhere},
      {"norm.kind", kBoth, {"norms"}},
      {"norm.weight_offset", kBoth, {"norms"}},
      {"norm.weight_swapped", kBoth, {"norms"}},
      {"norm.bias_missing", kNowhere},
      {"norm.missing", kBoth, {"norm_weights", "norms", "weights"}},      // nobody reads them
      {"norm.placement", kBoth, {"norms", "residual", "residual_sums"}},  // the sums are normed
      {"norm.cast_order", kBoth, {"norms"}},
      {"weight.transposed", kBlock},  // the program is right: only another one's values can tell
      {"weight.rows_permuted", kLlama, {"attention"}},
      {"weight.quant_layout", kBlock, {"attention", "mlp"}},
      {"bias.missing", kBlock, {"attention", "weights"}},
      {"rope.pairing", kLlama, {"rotary"}},
      {"rope.base", kLlama, {"rotary"}},
      {"rope.scaling", kLlama, {"rotary"}},
      {"rope.partial", kLlama, {"rotary"}},
      {"rope.position", kLlama, {"rotary"}},
      {"rope.missing", kLlama, {"rotary"}},
      {"rope.twice", kLlama, {"rotary"}},
      {"qk_norm.order", kNowhere},
      {"qk_norm.axis", kNowhere},
      {"qk_norm.missing", kNowhere},
      {"attn.qkv_split", kBoth, {"attention"}},
      {"attn.kv_swapped", kBoth, {"attention"}},
      {"attn.scale", kBoth, {"attention"}},
      {"attn.softcap", kBoth, {"attention"}},
      {"attn.position_bias", kNowhere},
      {"attn.causal_mask",
       kBoth,
       {"causal", "decode", "attention"}},  // the cache has no later keys
      {"attn.padding_mask", kBoth},         // no check pads
      {"attn.window", kBoth, {"attention"}},
      {"attn.gqa_mapping", kBoth, {"attention"}},
      {"attn.head_merge", kBoth, {"attention", "causal", "decode"}},  // tokens change places
      {"mlp.activation", kBoth, {"mlp"}},
      {"mlp.gate_value_swapped", kBoth, {"mlp"}},
      {"residual.missing", kBoth, {"residual", "residual_sums"}},
      {"residual.doubled", kBoth, {"residual", "residual_sums"}},
      {"residual.source", kBoth, {"residual", "residual_sums"}},
      {"residual.scale", kBoth, {"residual_sums"}},
      {"block.parallel", kBoth, {"norms"}},
      {"head.final_norm", kOutside, {"norm_weights", "norms", "weights"}},
      {"head.tied", kOutside, {"head", "weights"}},
      {"head.softcap", kOutside, {"head"}},
      {"head.scale", kOutside, {"head"}},
      {"precision.overflow", kBoth, {"residual_sums"}},
      {"precision.dtype", kBoth, {"residual_sums", "residual"}},
  };
  return all;
}

BrokenModel broken(const testing::TestModel& model, const std::string& mistake, int layer) {
  return make_mistake(model.program(), model.sources, {mistake, layer});
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
  for (const auto& [mistake, where, checks] : expectations()) {
    if ((where & kBlock) == 0) {
      EXPECT_THROW(broken(model, mistake, -1), Error) << mistake;
      continue;
    }
    EXPECT_EQ(failed(broken(model, mistake, -1)), Checks(checks.begin(), checks.end())) << mistake;
  }
}

TEST(LessonMistakes, OnASmallLlamaTheRightChecksFail) {
  const testing::TestModel model = small_llama();
  for (const auto& [mistake, where, checks] : expectations()) {
    if ((where & (kLlama | kOutside)) == 0) {
      EXPECT_THROW(broken(model, mistake, -1), Error) << mistake;
      continue;
    }
    EXPECT_EQ(failed(broken(model, mistake, -1)), Checks(checks.begin(), checks.end())) << mistake;
  }
}

TEST(LessonMistakes, InOneBlockOfTwoIsEnough) {
  const testing::TestModel model = small_llama();
  for (const auto& [mistake, where, checks] : expectations()) {
    if ((where & kLlama) == 0) {
      EXPECT_THROW(broken(model, mistake, 1), Error) << mistake;
      continue;
    }
    const BrokenModel one = broken(model, mistake, 1);
    EXPECT_EQ(failed(one), Checks(checks.begin(), checks.end())) << mistake;
    for (const CheckResult& result : check(one.program, one.weights, {.threads = 1})) {
      EXPECT_EQ(result.detail.find("blocks.0"), std::string::npos)
          << mistake << " in block 1: " << result.id << ": " << result.detail;
    }
  }
}

}  // namespace
}  // namespace mainstem::lesson
