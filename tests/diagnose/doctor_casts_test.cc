// Half precision norms cast before their weight or behind it: a note, no finding.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/made_dump.h"
#include "mainstem/doctor.h"

namespace mainstem {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace mainstem::testing;

DoctorReport report_of(const std::string& family, const Arithmetic& arithmetic) {
  const Model model = load_family(family);
  MadeDump dump(model.bound(), some_input(model, 24),
                {.compute = Compute::kF64, .arithmetic = arithmetic});
  if (arithmetic.type == ArithmeticType::kBF16) dump.store_as(DType::kBF16);
  if (arithmetic.type == ArithmeticType::kF16) dump.store_as(DType::kF16);
  if (arithmetic.type == ArithmeticType::kF32) dump.store_as(DType::kF32);
  return doctor(model, dump.open(), {.threads = 1});
}

TEST(DoctorCasts, TheOrderOfTheDumpIsNamed) {
  for (const ArithmeticType type : {ArithmeticType::kBF16, ArithmeticType::kF16}) {
    ASSERT_THAT(describe({type, 0}), HasSubstr("norms cast before weights"));
    const DoctorReport first = report_of("llama", {type, 0});
    EXPECT_THAT(first.causes, IsEmpty());
    EXPECT_EQ(first.diff.verdict, DiffVerdict::kMatch);
    EXPECT_THAT(first.diff.notes,
                Contains(HasSubstr("norms' values are round(x̂) · w bit for bit")));
    ASSERT_THAT(describe({type, 1}), HasSubstr("fused kernels: float32 inside a step"));
    const DoctorReport last = report_of("llama", {type, 1});
    EXPECT_THAT(last.causes, IsEmpty());
    EXPECT_THAT(last.diff.notes, Contains(HasSubstr("norms' values are round(x̂ · w) bit for bit")));
  }
}

TEST(DoctorCasts, InFloat32ThereIsNone) {
  EXPECT_THAT(report_of("llama", {ArithmeticType::kF32, 0}).diff.notes,
              Each(Not(HasSubstr("norm.cast_order"))));
}

}  // namespace
}  // namespace mainstem
