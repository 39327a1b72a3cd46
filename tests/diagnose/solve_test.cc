#include "diagnose/solve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mainstem {
namespace {

TEST(Solve, TakesAUsualValueThatFits) {
  const std::vector<FreeNumber> eps{{"eps", 1e-12, 1e-1, false, true, {1e-6, 1e-5}}};
  int calls = 0;
  const Solved solved = solve(
      eps,
      [&](std::span<const double> n) {
        ++calls;
        return std::fabs(std::log(n[0] / 1e-5));
      },
      1e-9);
  EXPECT_EQ(solved.numbers, std::vector<double>{1e-5});
  EXPECT_EQ(calls, 2);
}

TEST(Solve, FindsANumberBetweenTheUsualOnes) {
  const std::vector<FreeNumber> base{{"base", 1e2, 1e8, false, true, {1e4, 5e5}}};
  const Solved solved = solve(
      base, [](std::span<const double> n) { return std::fabs(std::log(n[0] / 73217.5)); }, 1e-9);
  EXPECT_NEAR(solved.numbers[0], 73217.5, 1e-3);
}

// Angles come round again: a search that goes downhill from one place would stop in a wrong dip.
TEST(Solve, LooksIntoSeveralDips) {
  const std::vector<FreeNumber> number{{"x", 0, 40, false, false, {1.0}}};
  const Solved solved = solve(
      number,
      [](std::span<const double> n) {
        return 2 + 0.05 * std::fabs(n[0] - 25.3) - std::cos(3 * (n[0] - 25.3)) +
               (n[0] == 25.3 ? -1 : 0);
      },
      1e-12);
  EXPECT_NEAR(solved.numbers[0], 25.3, 1e-5);
}

TEST(Solve, WholeNumbersStayWhole) {
  const std::vector<FreeNumber> offset{{"offset", 0, 1000, true, false, {0, 1, 2}}};
  const Solved solved =
      solve(offset, [](std::span<const double> n) { return std::fabs(n[0] - 613); }, 0);
  EXPECT_EQ(solved.numbers[0], 613);
}

TEST(Solve, TwoNumbersOneAfterTheOther) {
  const std::vector<FreeNumber> two{{"a", 0, 10, false, false, {1.0}},
                                    {"b", 1e-3, 1e3, false, true, {1.0}}};
  const Solved solved = solve(
      two, [](std::span<const double> n) { return std::hypot(n[0] - 7.25, std::log(n[1] / 31.0)); },
      1e-9);
  EXPECT_NEAR(solved.numbers[0], 7.25, 1e-4);
  EXPECT_NEAR(solved.numbers[1], 31, 1e-2);
}

TEST(Solve, SurvivesErrorsThatAreNoNumbers) {
  const std::vector<FreeNumber> number{{"x", 1, 100, false, true, {1.0}}};
  const Solved solved = solve(
      number,
      [](std::span<const double> n) { return n[0] < 10 ? std::nan("") : std::fabs(n[0] - 20); },
      1e-9);
  EXPECT_NEAR(solved.numbers[0], 20, 1e-5);
}

// What fits best may lie beyond.
TEST(Solve, TheEndOfTheRangeIsSaid) {
  const std::vector<FreeNumber> factor{{"factor", 1e-3, 1e3, false, true, {0.5, 2}}};
  const auto best_at = [&](double place) {
    return solve(
        factor, [=](std::span<const double> n) { return std::fabs(std::log(n[0] / place)); }, 1e-9);
  };
  EXPECT_TRUE(best_at(1e-5).at_edge);
  EXPECT_TRUE(best_at(1e5).at_edge);
  EXPECT_FALSE(best_at(0.037).at_edge);
  // All whole numbers of a short range are looked at, the last ones included.
  const std::vector<FreeNumber> window{{"window", 1, 9, true, false, {4}}};
  EXPECT_FALSE(
      solve(window, [](std::span<const double> n) { return std::fabs(n[0] - 9); }, 0).at_edge);
}

TEST(ShortNumber, HasTwoDigits) {
  EXPECT_EQ(short_number(4.99998), 5.0);
  EXPECT_EQ(short_number(-0.12000001), -0.12);
  EXPECT_EQ(short_number(1.00004e-5), 1e-5);
  EXPECT_EQ(short_number(10000.3), 10000.0);
  for (double each : {4.9, 0.12}) EXPECT_EQ(short_number(each), each);
  for (double each : {4.99, 5.001, 0.1234, 0.0, std::nan(""), HUGE_VAL}) {
    EXPECT_EQ(short_number(each), std::nullopt) << each;
  }
}

}  // namespace
}  // namespace mainstem
