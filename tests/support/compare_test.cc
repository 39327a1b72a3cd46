#include "support/compare.h"

#include <cmath>
#include <limits>
#include <vector>

#include "support/bounds.h"

namespace mainstem::testing {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();
using Doubles = std::vector<double>;

TEST(Compare, AcceptsWithinAndRejectsBeyondTheBound) {
  EXPECT_TRUE(close(Doubles{1.0, 2.0}, Doubles{1.0, 2.5}, 0.2));
  EXPECT_FALSE(close(Doubles{1.0, 2.0}, Doubles{1.0, 2.5}, 0.19));
  EXPECT_TRUE(close(Doubles{1.5}, Doubles{1.0}, [](size_t) { return 0.5; }));
  EXPECT_FALSE(close(Doubles{1.5}, Doubles{1.0}, [](size_t) { return 0.49; }));
}

TEST(Compare, NegativeValuesAreComparedLikePositiveOnes) {
  EXPECT_FALSE(close(Doubles{-3.0}, Doubles{-1.0}, 0.5));
  EXPECT_FALSE(close(Doubles{-1.0}, Doubles{1.0}, 0.5));
  EXPECT_FALSE(close(Doubles{1.0}, Doubles{-1.0}, 0.5));
}

TEST(Compare, NanPassesOnlyWhereTheReferenceIsNan) {
  EXPECT_FALSE(close(Doubles{kNan}, Doubles{1.0}, 1e300));
  EXPECT_FALSE(close(Doubles{1.0}, Doubles{kNan}, 1e300));
  EXPECT_TRUE(close(Doubles{kNan}, Doubles{kNan}, 0.0));
  EXPECT_FALSE(close(Doubles{1.0}, Doubles{1.5}, [](size_t) { return kNan; }));
  EXPECT_FALSE(close(Doubles{2.0, kNan}, Doubles{2.0, 3.0}, 1.0));
}

TEST(Compare, InfinityNeedsTheSameSign) {
  EXPECT_TRUE(close(Doubles{kInf}, Doubles{kInf}, 0.0));
  EXPECT_FALSE(close(Doubles{-kInf}, Doubles{kInf}, 1e300));
  EXPECT_FALSE(close(Doubles{kInf}, Doubles{1.0}, [](size_t) { return kInf; }));
  EXPECT_FALSE(close(Doubles{1.0}, Doubles{kInf}, 1e300));
}

TEST(Compare, OneInfiniteReferenceDoesNotWidenTheBound) {
  EXPECT_FALSE(close(Doubles{kInf, 2.0}, Doubles{kInf, 1.0}, 0.5));
}

TEST(Compare, ZerosOfBothSignsAreCloseButNotTheSameBits) {
  EXPECT_TRUE(close(Doubles{-0.0}, Doubles{0.0}, 0.0));
  EXPECT_FALSE(same_bits(Doubles{-0.0}, Doubles{0.0}));
  EXPECT_TRUE(same_bits(Doubles{-0.0}, Doubles{-0.0}));
  // A relative bound of a tensor of zeros is zero.
  EXPECT_FALSE(close(Doubles{1e-300}, Doubles{0.0}, 0.5));
}

TEST(Compare, EmptyAndUnequalSizesFail) {
  EXPECT_FALSE(close(Doubles{}, Doubles{}, 1.0));
  EXPECT_FALSE(same_bits(Doubles{}, Doubles{}));
  EXPECT_FALSE(close(Doubles{1.0}, Doubles{1.0, 2.0}, 1.0));
  EXPECT_FALSE(close(Doubles{1.0, 2.0}, Doubles{1.0}, 1.0));
}

TEST(Compare, DenormalsAreValues) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  EXPECT_FALSE(close(Doubles{0.0}, Doubles{tiny}, 0.5));
  EXPECT_TRUE(close(Doubles{tiny}, Doubles{tiny}, 0.0));
}

TEST(Compare, ShapesMustBeEqualInRankAndSize) {
  EXPECT_TRUE(same_shape(std::vector<int64_t>{1, 2}, std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(same_shape(std::vector<int64_t>{1, 2}, std::vector<int64_t>{2, 1}));
  EXPECT_FALSE(same_shape(std::vector<int64_t>{1, 2}, std::vector<int64_t>{1, 2, 1}));
}

TEST(Compare, TheTextNamesTheWorstElement) {
  const auto result = close(Doubles{1.0, 5.0, 2.0}, Doubles{1.0, 1.0, 1.0}, 0.1);
  EXPECT_NE(std::string(result.message()).find("2 of 3 values differ; worst at 1"),
            std::string::npos)
      << result.message();
}

TEST(Bounds, GrowWithLengthAndMagnitudeAndStayBelowAMistake) {
  EXPECT_LT(bounds::one_step(1e-7, 4, 1), bounds::one_step(1e-7, 64, 1));
  EXPECT_LT(bounds::one_step(1e-7, 4, 1), bounds::one_step(1e-7, 4, 2));
  EXPECT_EQ(bounds::one_step(1e-16, 4, 0), 0);
  EXPECT_LT(bounds::end_to_end(2.3e-16, 3), 2e-12);
}

}  // namespace
}  // namespace mainstem::testing
