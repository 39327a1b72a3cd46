// A program whose steps do not fit together is refused before a kernel sees it.

#include <gtest/gtest.h>

#include "mainstem/error.h"
#include "mainstem/program.h"
#include "support/random_model.h"

namespace mainstem {
namespace {

/// Every value in turn is made wider; somebody must object.
void expect_every_width_matters(const Program& program) {
  EXPECT_NO_THROW(validate(program));
  int checked = 0;
  for (const Step& step : program.steps) {
    if (step.op == Op::kTokens) continue;  // ids, not rows
    Program wrong = program;
    ++wrong.values[static_cast<size_t>(step.output)].width;
    EXPECT_THROW(validate(wrong), Error) << name(step.op) << " of block " << step.layer;
    ++checked;
  }
  EXPECT_GT(checked, 10);
}

TEST(ProgramFit, EveryWidthOfADecoderMatters) {
  expect_every_width_matters(build_program(testing::small_decoder()));
}

TEST(ProgramFit, EveryWidthOfABlockMatters) {
  expect_every_width_matters(build_block_program(testing::small_decoder().stack.blocks[0]));
}

/// An edit may take away what the kernels look up without asking.
TEST(ProgramFit, EveryPartOfAStepMatters) {
  const Program program = build_program(testing::small_decoder());
  int weights = 0;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const std::string what = std::string(name(step.op)) + " of block " + std::to_string(step.layer);
    const auto refused = [&](const auto& change) {
      Program wrong = program;
      change(wrong.steps[i]);
      EXPECT_THROW(validate(wrong), Error) << what;
    };
    if (!std::holds_alternative<std::monostate>(step.params)) {
      refused([](Step& each) { each.params = {}; });
    }
    if (step.op != Op::kTokens && step.op != Op::kEmbedTokens && step.op != Op::kEmbedPositions) {
      refused([](Step& each) { each.inputs.clear(); });
    }
    if (step.op == Op::kLinear || step.op == Op::kEmbedTokens) {
      refused([](Step& each) { each.weights.clear(); });
      refused([](Step& each) { each.weights[0] = kNoId; });
      ++weights;
    }
  }
  EXPECT_GT(weights, 4);
}

TEST(ProgramFit, BuiltProgramsFit) {
  testing::Dice dice(5);
  for (int i = 0; i < 200; ++i) {
    const testing::Kind kind = dice.pick<testing::Kind>(
        {testing::Kind::kDecoder, testing::Kind::kEncoder, testing::Kind::kEncoderDecoder});
    EXPECT_NO_THROW(validate(build_program(testing::random_spec(dice, kind))));
  }
}

}  // namespace
}  // namespace mainstem
