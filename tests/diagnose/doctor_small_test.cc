// Mistakes below the round-off of 16-bit types, which no single value shows.

#include "diagnose/doctor_small.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/made_dump.h"
#include "mainstem/check.h"
#include "mainstem/doctor.h"
#include "mainstem/rng.h"

namespace mainstem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using namespace mainstem::testing;

TEST(SmallRegression, FindsTheCoefficientAndItsDeviation) {
  Generator generator(3);
  std::vector<double> change(20000);
  std::vector<double> noise(change.size());
  for (const double made : {0.0, 1.0, 0.5}) {
    Regression regression;
    generator.randn(std::span<double>(change));
    generator.rand(std::span<double>(noise));
    for (size_t i = 0; i < change.size(); ++i) {
      const double d = 0.1 * change[i];
      const double residual = made * d + noise[i] - 0.5;
      regression.add({residual * d, d * d, residual * residual, 1});
    }
    EXPECT_NEAR(regression.deviation(), std::sqrt(1.0 / 12 / (20000 * 0.01)), 2e-3);
    EXPECT_NEAR(regression.coefficient(), made, 4 * regression.deviation());
    EXPECT_EQ(regression.shows(), made == 1);
  }
}

TEST(SmallRegression, FewValuesShowNothing) {
  Regression regression;
  for (int i = 0; i < 50; ++i) regression.add({0.01, 0.01, 0.01, 1});
  EXPECT_NEAR(regression.coefficient(), 1, 1e-12);
  EXPECT_FALSE(regression.shows());
}

// A factor that is rounded once for a whole row is one error, not as many as the row has numbers.
TEST(SmallRegression, ErrorsOfOneRowHangTogether) {
  constexpr int kRows = 40;
  constexpr int kWidth = 256;
  Generator generator(5);
  std::vector<double> factors(kRows);
  generator.rand(std::span<double>(factors));
  Regression regression;
  for (const double factor : factors) {
    const double r = kWidth * 0.1 * (0.1 + factor - 0.5);
    const double c = kWidth * 0.01;
    const double residual = 0.1 + factor - 0.5;
    regression.add({r, c, kWidth * residual * residual, kWidth, r * r, r * c, c * c});
  }
  // As of forty numbers, each known to the deviation of a factor.
  EXPECT_NEAR(regression.deviation(), std::sqrt(1.0 / 12 / kRows) / 0.1, 0.1);
  EXPECT_FALSE(regression.shows());
}

class DoctorSmall : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  Model model_ = load_family(std::get<0>(GetParam()));
  SequenceInput input_ = some_input(model_, 200);

  DoctorReport report_of(const std::shared_ptr<const BoundProgram>& bound) const {
    const DType stored = std::get<1>(GetParam());
    const ArithmeticType type =
        stored == DType::kBF16 ? ArithmeticType::kBF16 : ArithmeticType::kF16;
    MadeDump dump(bound, input_, {.compute = Compute::kF64, .arithmetic = {type, 0}});
    dump.store_as(stored);
    return doctor(model_, dump.open(), {.threads = 1});
  }
};

TEST_P(DoctorSmall, TheOtherGeluIsProved) {
  const BrokenModel broken =
      make_mistake(model_.program(), model_.weights(), parse_mistake("mlp.activation@1"));
  const DoctorReport report =
      report_of(std::make_shared<BoundProgram>(broken.program, broken.weights));
  ASSERT_EQ(report.causes.size(), 1);
  const Cause& cause = report.causes[0];
  EXPECT_EQ(cause.id, "mlp.activation");
  EXPECT_EQ(cause.status, CauseStatus::kProved);
  EXPECT_THAT(cause.layers, ElementsAre(1));
  EXPECT_THAT(cause.parameters, Contains(Pair("evidence", HasSubstr("± "))));
  EXPECT_EQ(report.diff.verdict, DiffVerdict::kDivergent);
  EXPECT_THAT(report.diff.wrong(), ElementsAre("blocks.1.mlp_act"));
}

TEST_P(DoctorSmall, TheRightOneIsNot) {
  const DoctorReport report = report_of(model_.bound());
  for (const Cause& cause : report.causes) {
    ADD_FAILURE() << cause.id << ": " << cause.parameters[0].second;
  }
  EXPECT_EQ(report.diff.verdict, DiffVerdict::kMatch);
}

// An eps outside of the root makes nearly what some other eps makes: none is proved.
TEST(DoctorSmallOf, AnotherEpsIsNotProvedToBeOutsideOfTheRoot) {
  const Model model = load_family("llama");
  Program program = model.program();
  for (Step& step : program.steps) {
    if (auto* norm = std::get_if<NormParams>(&step.params)) norm->norm.eps *= 2;
  }
  MadeDump dump(std::make_shared<BoundProgram>(program, model.weights()), some_input(model, 200),
                {.compute = Compute::kF64, .arithmetic = {ArithmeticType::kBF16, 0}});
  dump.store_as(DType::kBF16);
  const DoctorReport report = doctor(model, dump.open(), {.threads = 1});
  EXPECT_FALSE(report.causes.empty());
  for (const Cause& cause : report.causes) {
    if (cause.id == "norm.eps") continue;
    EXPECT_NE(cause.status, CauseStatus::kProved) << cause.id;
    EXPECT_THAT(cause.same_values, Contains(::testing::Field(&TriedCause::id, "norm.eps")))
        << cause.id;
  }
}

// Published numbers are candidates of their own, and the nearest of them is named.
TEST(DoctorSmallOf, APublishedEpsIsFound) {
  const Model model = load_family("llama");
  Program program = model.program();
  for (Step& step : program.steps) {
    auto* norm = std::get_if<NormParams>(&step.params);
    if (norm != nullptr) {
      ASSERT_EQ(norm->norm.eps, 3e-3);
      norm->norm.eps = 1e-3;
    }
  }
  MadeDump dump(std::make_shared<BoundProgram>(program, model.weights()), some_input(model, 400),
                {.compute = Compute::kF64, .arithmetic = {ArithmeticType::kBF16, 0}});
  dump.store_as(DType::kBF16);
  const DoctorReport report = doctor(model, dump.open(), {.threads = 2});
  ASSERT_EQ(report.causes.size(), 1);
  const Cause& cause = report.causes[0];
  EXPECT_EQ(cause.id, "norm.eps");
  // What is left open could be off by a fifth: not proved.
  EXPECT_EQ(cause.status, CauseStatus::kLikely);
  EXPECT_THAT(cause.parameters, Contains(Pair("eps", "0.001")));
  EXPECT_THAT(cause.parameters, Contains(Pair("evidence", HasSubstr("± "))));
  EXPECT_THAT(cause.same_values, IsEmpty());
  EXPECT_EQ(report.diff.verdict, DiffVerdict::kDivergent);
}

TEST(SmallMistake, IsProvedWhereNothingElseDoes) {
  Regression close;
  Regression vague;
  for (int i = 0; i < 30000; ++i) close.add({0.1, 0.1, 0.1 + 1.0 / 12, 1, 0, 0, 0});
  for (int i = 0; i < 1000; ++i) vague.add({0.1, 0.1, 0.1 + 1.0 / 12, 1, 0, 0, 0});
  ASSERT_TRUE(close.shows());
  ASSERT_TRUE(vague.shows());
  const Form form;
  SmallMistake mistake{.forms = {&form}, .regression = vague};
  EXPECT_TRUE(mistake.proved());
  mistake.numbers = {1e-5};
  EXPECT_FALSE(mistake.proved());
  mistake.regression = close;
  EXPECT_TRUE(mistake.proved());
  mistake.rivals.push_back({&form, {}});
  EXPECT_FALSE(mistake.proved());
}

std::string label(const ::testing::TestParamInfo<std::tuple<std::string, DType>>& test) {
  return std::get<0>(test.param) + "_" + std::string(name(std::get<1>(test.param)));
}

INSTANTIATE_TEST_SUITE_P(Float16, DoctorSmall,
                         ::testing::Combine(::testing::Values("gemma", "gemma2", "falcon",
                                                              "gpt_neox", "gptj", "phi",
                                                              "starcoder2", "falcon_rw"),
                                            ::testing::Values(DType::kF16)),
                         label);
// Eight times the noise: of these tiny models some have too few large values to tell by.
INSTANTIATE_TEST_SUITE_P(BFloat16, DoctorSmall,
                         ::testing::Combine(::testing::Values("falcon", "gpt_neox", "falcon_rw"),
                                            ::testing::Values(DType::kBF16)),
                         label);

}  // namespace
}  // namespace mainstem
