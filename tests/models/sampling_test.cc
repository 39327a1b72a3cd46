#include "mainstem/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/test_files.h"

namespace mainstem {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

using Logits = std::vector<float>;
using Ids = std::vector<int64_t>;

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOfEquals) {
  Sampler sampler;
  EXPECT_EQ(sampler.sample(Logits{1, 3, 2}), 1);
  EXPECT_EQ(sampler.sample(Logits{3, 1, 3}), 0);
  EXPECT_EQ(sampler.sample(Logits{-0.0f, 0.0f}), 0);
  EXPECT_EQ(sampler.sample(Logits{-kInfinity, -5}), 1);
  EXPECT_EQ(sampler.sample(Logits{-1}), 0);
}

TEST(Sampler, ThePenaltyCountsWhenGreedyToo) {
  Sampler sampler({.repeat_penalty = 2});
  const Ids history = {1, 1, 1};
  EXPECT_EQ(sampler.sample(Logits{2, 3.9f, 0}, history), 0);  // 3.9 / 2, once
  EXPECT_EQ(sampler.sample(Logits{2, 4.1f, 0}, history), 1);
  EXPECT_EQ(sampler.sample(Logits{-3, -2, -9}, history), 0);  // -2 * 2
}

TEST(Sampler, ThePenaltyLooksAtTheLastTokensOnly) {
  const Logits logits = {2, 3, 0};
  const Ids history = {1, 0, 2};
  EXPECT_EQ(Sampler({.repeat_penalty = 9}).sample(logits, history), 1);  // 2/9, 3/9, 0
  EXPECT_EQ(Sampler({.repeat_penalty = 9, .repeat_last_n = 2}).sample(logits, history), 1);
  EXPECT_EQ(Sampler({.repeat_penalty = 9, .repeat_last_n = 0}).sample(logits, Ids{1}), 1);
  EXPECT_EQ(Sampler({.repeat_penalty = 9, .repeat_last_n = 1}).sample(logits, Ids{0, 1}), 0);
  EXPECT_EQ(Sampler({.repeat_penalty = 9, .repeat_last_n = 1}).sample(logits, Ids{1, 0}), 1);
}

TEST(Sampler, DrawsWithTheProbabilitiesOfTransformers) {
  std::ifstream file(std::string(MAINSTEM_TEST_DATA) + "/golden/sampling.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 16u);
  constexpr int kDraws = 20000;
  for (const auto& one : cases) {
    SCOPED_TRACE(one["options"].dump());
    Logits logits;
    for (const auto& value : one["logits"]) {
      logits.push_back(value.is_null() ? -kInfinity : value.get<float>());
    }
    const auto& given = one["options"];
    Sampler sampler({.temperature = given.value("temperature", 0.0),
                     .top_k = given.value("top_k", int64_t{0}),
                     .top_p = given.value("top_p", 1.0),
                     .min_p = given.value("min_p", 0.0),
                     .repeat_penalty = given.value("repeat_penalty", 1.0),
                     .repeat_last_n = {},
                     .seed = 11});
    const auto history = one["history"].get<Ids>();
    std::vector<int> counts(logits.size());
    for (int i = 0; i < kDraws; ++i) {
      ++counts[static_cast<size_t>(sampler.sample(logits, history))];
    }
    for (size_t id = 0; id < counts.size(); ++id) {
      const double p = one["probabilities"][id].get<double>();
      if (p == 0) {
        EXPECT_EQ(counts[id], 0) << "token " << id;
        continue;
      }
      // Five standard deviations of a binomial count.
      const double bound = 5 * std::sqrt(kDraws * p * (1 - p)) + 1;
      EXPECT_LE(std::abs(counts[id] - kDraws * p), bound) << "token " << id;
    }
  }
}

TEST(Sampler, TheSeedDecides) {
  const Logits logits(50, 0.0f);
  const auto draw = [&](uint64_t seed) {
    Sampler sampler({.temperature = 1, .seed = seed});
    Ids ids;
    for (int i = 0; i < 30; ++i) ids.push_back(sampler.sample(logits));
    return ids;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
  // Equal logits: token i for a uniform number in [i, i + 1) / V, the generator's own.
  Generator generator(1);
  std::vector<double> uniform(1);
  for (const int64_t id : draw(1)) {
    generator.rand(std::span(uniform));
    EXPECT_EQ(id, static_cast<int64_t>(uniform[0] * 50));
  }
}

TEST(Sampler, ExtremeTemperaturesStayFinite) {
  const Logits logits = {1e30f, 3e38f, -3e38f};
  EXPECT_EQ(Sampler({.temperature = 1e-300}).sample(logits), 1);
  EXPECT_EQ(Sampler({.temperature = 1e-300, .top_p = 0.5, .min_p = 0.5}).sample(logits), 1);
  Sampler flat({.temperature = 1e300, .seed = 3});
  std::vector<int> counts(3);
  for (int i = 0; i < 3000; ++i) ++counts[static_cast<size_t>(flat.sample(logits))];
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(Sampler, NamesBadLogits) {
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({.temperature = temperature});
    test::expect_bad_input({"logit of token 1", "NaN"},
                           [&] { sampler.sample(Logits{0, kNaN, 1}); });
    test::expect_bad_input({"logit of token 2", "+inf"},
                           [&] { sampler.sample(Logits{0, 1, kInfinity}); });
    test::expect_bad_input({"-inf everywhere"},
                           [&] { sampler.sample(Logits{-kInfinity, -kInfinity}); });
    test::expect_bad_input({"no logits"}, [&] { sampler.sample(Logits{}); });
    for (const int64_t id : {-1, 2}) {
      test::expect_error(ErrorCode::kUsage, {"history", std::to_string(id)},
                         [&] { sampler.sample(Logits{0, 1}, Ids{0, id}); });
    }
  }
}

TEST(Sampler, NamesBadOptions) {
  constexpr double kBad = std::numeric_limits<double>::quiet_NaN();
  constexpr double kBig = std::numeric_limits<double>::infinity();
  const auto refused = [](const char* name, const SamplingOptions& options) {
    test::expect_error(ErrorCode::kUsage, {name}, [&] { Sampler sampler(options); });
  };
  for (const double x : {-0.1, kBad, kBig}) refused("temperature", {.temperature = x});
  refused("top_k", {.top_k = -1});
  for (const double x : {0.0, -1.0, 1.1, kBad}) refused("top_p", {.top_p = x});
  for (const double x : {-0.1, 1.1, kBad}) refused("min_p", {.min_p = x});
  for (const double x : {0.0, -1.0, kBad, kBig}) refused("repeat_penalty", {.repeat_penalty = x});
  refused("repeat_last_n", {.repeat_last_n = -1});
}

}  // namespace
}  // namespace mainstem
