#include "kernels/bounds.h"

#include <gtest/gtest.h>

#include <vector>

namespace mainstem::test {
namespace {

bool passes(std::vector<float> got, std::vector<double> expected, std::vector<double> bound) {
  return compare<float>(got, expected, bound).pass;
}

TEST(Comparator, PassesWithinTheBoundOnly) {
  EXPECT_TRUE(passes({1, 2}, {1, 2}, {0, 0}));
  EXPECT_TRUE(passes({1, 2.5f}, {1, 2}, {0, 0.5}));
  EXPECT_FALSE(passes({1, 2.5f}, {1, 2}, {0, 0.499}));
  EXPECT_FALSE(passes({-1}, {1}, {0.5}));
  EXPECT_TRUE(passes({}, {}, {}));
  EXPECT_TRUE(passes({-0.0f}, {0.0}, {0}));
}

TEST(Comparator, WhatIsNotANumberFails) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(passes({nan}, {1}, {1e30}));
  EXPECT_FALSE(passes({1}, {static_cast<double>(nan)}, {1e30}));
  EXPECT_FALSE(passes({nan}, {static_cast<double>(nan)}, {1e30}));
  EXPECT_FALSE(passes({inf}, {1}, {1e30}));
  EXPECT_FALSE(passes({inf}, {static_cast<double>(inf)}, {1e30}));
  EXPECT_FALSE(passes({1}, {1}, {static_cast<double>(nan)}));
}

TEST(Comparator, LengthsMustAgree) {
  EXPECT_FALSE(passes({1, 2}, {1}, {0}));
  EXPECT_FALSE(passes({1}, {1}, {}));
}

TEST(Comparator, NamesTheWorst) {
  const std::vector<float> got = {1, 5, 2};
  const std::vector<double> expected = {1, 2, 1}, bound = {1, 1, 0.1};
  const auto c = compare<float>(got, expected, bound);
  EXPECT_EQ(c.failures, 2u);
  EXPECT_EQ(c.worst, 2u);
  EXPECT_NEAR(c.worst_ratio, 10, 1e-9);
}

TEST(Bounds, GrowWithLengthAndMagnitude) {
  EXPECT_LT(dot_bound(10, 1), dot_bound(20, 1));
  EXPECT_LT(dot_bound(10, 1), dot_bound(10, 2));
  EXPECT_GE(gamma(1), kUnit);
  EXPECT_GT(function_bound(0, 1), 0);
}

}  // namespace
}  // namespace mainstem::test
