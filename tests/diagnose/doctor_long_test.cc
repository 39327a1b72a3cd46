// Texts so long that mistakes are first tried on their first rows: what is found must not depend
// on it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "diagnose/made_dump.h"
#include "diagnose/report_text.h"
#include "mainstem/check.h"
#include "mainstem/doctor.h"

namespace mainstem {
namespace {

using namespace mainstem::testing;

constexpr int64_t kTokens = 40;

bool is_output(const std::string& name) {
  return name == "tokens" || name == "embed" || name.ends_with("resid_post");
}

struct Case {
  std::string family, mistake;
  friend void PrintTo(const Case& one, std::ostream* out) {
    *out << one.family << ' ' << one.mistake;
  }
};

class DoctorLongText : public ::testing::TestWithParam<Case> {};

TEST_P(DoctorLongText, IsProvedByTheOutputsOfBlocks) {
  const auto& [family, mistake] = GetParam();
  const Model model = load_family(family);
  const BrokenModel broken =
      make_mistake(model.program(), model.weights(), parse_mistake(mistake + "@1"));
  MadeDump dump(std::make_shared<BoundProgram>(broken.program, broken.weights),
                some_input(model, kTokens), {.compute = Compute::kF32});
  dump.keep(is_output);
  for (int threads : {1, 2}) {
    const DoctorReport report = doctor(model, dump.open(), {.threads = threads});
    ASSERT_EQ(report.causes.size(), 1U) << text_of(report);
    EXPECT_EQ(report.causes[0].status, CauseStatus::kProved) << text_of(report);
    const auto& same = report.causes[0].same_values;
    const bool among = std::any_of(same.begin(), same.end(),
                                   [&](const TriedCause& each) { return each.id == mistake; });
    EXPECT_TRUE(report.causes[0].id == mistake || among) << text_of(report);
  }
}

// Some show from the first rows on, some behind them alone; one looks ahead, so that the first rows
// cannot be run without the others.
INSTANTIATE_TEST_SUITE_P(
    All, DoctorLongText,
    ::testing::Values(Case{"llama", "rope.pairing"}, Case{"llama", "mlp.gate_value_swapped"},
                      Case{"llama", "norm.eps"}, Case{"llama", "attn.causal_mask"},
                      Case{"llama", "rope.base"}, Case{"mistral", "attn.window"},
                      Case{"falcon", "attn.scale"}, Case{"gemma2", "attn.softcap"},
                      Case{"falcon_rw", "attn.head_merge"}),
    [](const auto& test) {
      std::string text = test.param.family + "_" + test.param.mistake;
      std::replace(text.begin(), text.end(), '.', '_');
      return text;
    });

// The first rows of one block are right and the others belong to other rows.
TEST(DoctorLongTextOf, AnErrorBehindTheFirstRowsIsFound) {
  const Model model = load_family("llama");
  MadeDump dump(model.bound(), some_input(model, kTokens), {.compute = Compute::kF32});
  dump.keep(is_output);
  Tensor& after = dump.at("blocks.1.resid_post");
  const int64_t width = after.shape().back();
  std::rotate(after.data<float>() + 20 * width, after.data<float>() + 21 * width,
              after.data<float>() + kTokens * width);
  const DoctorReport report = doctor(model, dump.open(), {.threads = 2});
  ASSERT_TRUE(report.diff.first);
  EXPECT_EQ(to_string(report.diff.steps[*report.diff.first].site), "blocks.1.resid_post");
  for (const Cause& cause : report.causes) EXPECT_NE(cause.status, CauseStatus::kProved);
}

class DiffLongText : public ::testing::TestWithParam<ArithmeticType> {};

TEST_P(DiffLongText, ALowerPrecisionIsNamed) {
  const Model model = load_family("llama");
  MadeDump dump(model.bound(), some_input(model, kTokens),
                {.compute = Compute::kF64, .arithmetic = {GetParam(), 1}});
  dump.keep(is_output);
  dump.store_as(DType::kF32);
  const DoctorReport report =
      doctor(model, dump.open(), {.dtype = ArithmeticType::kF32, .threads = 2});
  ASSERT_EQ(report.causes.size(), 1U) << text_of(report);
  EXPECT_EQ(report.causes[0].id, "precision.dtype");
  EXPECT_EQ(report.causes[0].parameters.front().second, name(GetParam()));
  for (const StepReport& step : report.diff.steps) {
    if (to_string(step.site).ends_with("resid_post")) {
      EXPECT_EQ(step.verdict, StepVerdict::kPrecision) << text_of(report);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DiffLongText,
                         ::testing::Values(ArithmeticType::kBF16, ArithmeticType::kF16),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace mainstem
