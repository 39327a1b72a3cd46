#include "runtime/plan.h"

#include <gtest/gtest.h>

#include <set>

#include "support/random_model.h"

namespace mainstem::testing {
namespace {

std::multiset<Op> ops_alone(const Program& program, const Plan& plan) {
  std::multiset<Op> ops;
  for (const PlanNode& node : plan.nodes) {
    if (!node.is_gemm) ops.insert(program.step(node.step).op);
  }
  return ops;
}

// A Llama's block: its norms, rotary positions, gate and sums run with the products.
TEST(Plan, AbsorbsEverythingAroundTheProducts) {
  ModelSpec spec = small_decoder();
  for (BlockSpec& block : spec.stack.blocks) {
    block.attention.head_width = 16;  // whole panels, as rotary positions in a product need them
    block.attention.rotary->width = 16;
  }
  spec.head.logit_scale = 0.5;
  spec.head.logit_cap = 30;
  const Program program = build_program(spec);
  const Plan plan = make_plan(program, {.wanted = {}, .fuse = true});
  EXPECT_EQ(ops_alone(program, plan),
            (std::multiset<Op>{Op::kTokens, Op::kEmbedTokens, Op::kAttention, Op::kAttention,
                               Op::kSelectRows}));
  std::multiset<Op> absorbed;
  for (const PlanNode& node : plan.nodes) {
    for (const GemmPartPlan& part : node.parts) {
      for (const StepId step : part.epilogue) absorbed.insert(program.step(step).op);
    }
  }
  EXPECT_EQ(absorbed,
            (std::multiset<Op>{Op::kRotary, Op::kRotary, Op::kRotary, Op::kRotary, Op::kActivation,
                               Op::kActivation, Op::kMultiply, Op::kMultiply, Op::kAdd, Op::kAdd,
                               Op::kAdd, Op::kAdd, Op::kScale, Op::kSoftCap}));
}

// Every step runs exactly once, alone or with a product, and only what can be absorbed is.
TEST(Plan, RunsEveryStepOnce) {
  size_t absorbed = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    const Kind kind = seed % 3 == 0   ? Kind::kEncoderDecoder
                      : seed % 3 == 1 ? Kind::kEncoder
                                      : Kind::kDecoder;
    const Program program = build_program(random_spec(dice, kind));
    const Plan plan = make_plan(program, {.wanted = {}, .fuse = true});
    std::multiset<StepId> run;
    for (const PlanNode& node : plan.nodes) {
      if (!node.is_gemm) run.insert(node.step);
      if (node.norm != kNoId) run.insert(node.norm);
      for (const GemmPartPlan& part : node.parts) {
        run.insert(part.linear);
        if (part.value_linear != kNoId) run.insert(part.value_linear);
        for (const StepId step : part.epilogue) {
          EXPECT_TRUE(can_absorb(program.step(step).op).has_value()) << seed;
          run.insert(step);
          ++absorbed;
        }
      }
    }
    ASSERT_EQ(run.size(), program.steps.size()) << seed;
    for (size_t s = 0; s < program.steps.size(); ++s) {
      ASSERT_EQ(run.count(static_cast<StepId>(s)), 1U) << "seed " << seed << ", step " << s;
    }
  }
  EXPECT_GT(absorbed, 1000U);
}

}  // namespace
}  // namespace mainstem::testing
