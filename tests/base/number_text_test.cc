#include "base/number_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace mainstem {
namespace {

template <typename Float>
class NumberText : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(NumberText, Floats);

TYPED_TEST(NumberText, HasOneWordForEveryNanAndTwoForTheInfinities) {
  constexpr TypeParam kNan = std::numeric_limits<TypeParam>::quiet_NaN();
  constexpr TypeParam kInfinity = std::numeric_limits<TypeParam>::infinity();
  for (const TypeParam nan : {kNan, std::copysign(kNan, TypeParam{-1})}) {
    EXPECT_EQ(number_text(nan), "nan");
    EXPECT_EQ(number_text(nan, "{:.1e}"), "nan");
    EXPECT_EQ(number_text(nan, "{:>6.2f}"), "   nan");
  }
  EXPECT_EQ(number_text(kInfinity), "inf");
  EXPECT_EQ(number_text(-kInfinity), "-inf");
  EXPECT_EQ(number_text(-kInfinity, "{:.5g}"), "-inf");
}

TEST(NumberText, RestoresTheNumberWithoutAFormat) {
  EXPECT_EQ(number_text(0.1F), "0.1");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(static_cast<double>(0.1F)), "0.10000000149011612");
  EXPECT_EQ(number_text(-0.0), "-0");
  EXPECT_EQ(number_text(1e-12), "1e-12");
}

TEST(NumberText, FollowsTheFormat) {
  EXPECT_EQ(number_text(-0.5, "{:.1e}"), "-5.0e-01");
  EXPECT_EQ(number_text(1234.567, "{:>9.4f}"), "1234.5670");
}

}  // namespace
}  // namespace mainstem
