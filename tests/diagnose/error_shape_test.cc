// What is said of errors that are none of the known mistakes.

#include "diagnose/error_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/made_dump.h"
#include "mainstem/doctor.h"
#include "mainstem/rng.h"

namespace mainstem {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using namespace mainstem::testing;

class ErrorShape : public ::testing::Test {
 protected:
  Model model_ = load_family("llama");
  MadeDump right_{model_.bound(), some_input(model_, 24), {.compute = Compute::kF32}};

  /// What doctor says of a dump in which one value is another one, and nothing behind it.
  std::string said_of(const std::string& name, const std::function<float(int64_t, float)>& change) {
    MadeDump dump = right_;
    float* values = dump.at(name).data<float>();
    for (int64_t i = 0; i < dump.at(name).count(); ++i) values[i] = change(i, values[i]);
    bool before = true;
    dump.keep(
        [&](const std::string& each) { return std::exchange(before, before && each != name); });
    return shape_in(dump, name);
  }

  std::string shape_in(const MadeDump& dump, const std::string& name) {
    const DoctorReport report = doctor(model_, dump.open(), {.threads = 1});
    if (report.causes.size() != 1) return std::to_string(report.causes.size()) + " causes";
    const Cause& cause = report.causes[0];
    if (cause.status != CauseStatus::kUnknown) return cause.id + " is no unknown cause";
    return cause.sites == std::vector{name} ? cause.shape : "wrong at " + cause.sites[0];
  }

  /// The head of an element of [B,T,H,E].
  int64_t head(const std::string& name, int64_t element) {
    const Shape& shape = right_.at(name).shape();
    return element / shape[3] % shape[2];
  }
};

TEST_F(ErrorShape, HeadsThatAreZeroOrScaledAreNamed) {
  const std::string mix = "blocks.1.attn_mix";
  EXPECT_EQ(said_of(mix, [&](int64_t i, float x) { return head(mix, i) == 3 ? 0 : x; }),
            "head 3 alone, where all is 0");
  EXPECT_EQ(said_of(mix, [&](int64_t i, float x) { return head(mix, i) == 2 ? 0.5F * x : x; }),
            "one factor for head 2 alone: 0.5");
  const auto two = [&](int64_t i, float x) {
    const int64_t h = head(mix, i);
    return h == 0 ? 0.5F * x : h == 2 ? 3 * x : x;
  };
  EXPECT_EQ(said_of(mix, two), "one factor for heads 0, 2 alone: 0.5 to 3");
  const auto all = [&](int64_t i, float x) { return static_cast<float>(2 + head(mix, i)) * x; };
  EXPECT_THAT(said_of(mix, all), HasSubstr("one factor for each head: 2 to "));
}

TEST_F(ErrorShape, ChannelsThatAreZeroAreNamed) {
  const std::string hidden = "blocks.1.mlp_hidden";
  const int64_t width = right_.at(hidden).shape().back();
  EXPECT_EQ(said_of(hidden, [&](int64_t i, float x) { return i % width == 5 ? 0 : x; }),
            "channel 5 alone, where all is 0");
}

TEST_F(ErrorShape, DropoutIsRecognised) {
  Generator generator(4);
  const auto dropped = [&](int64_t, float x) {
    double chance = 0;
    generator.rand(std::span<double>(&chance, 1));
    return chance < 0.25 ? 0 : x / 0.75F;
  };
  EXPECT_THAT(said_of("blocks.1.mlp_hidden", dropped),
              MatchesRegex(R"(2.\.. % of the values are 0, the others 1\.333 times as large: )"
                           "dropout of rate 0.25"));
  const auto rectified = [](int64_t, float x) { return x < 0 ? 0 : x; };
  EXPECT_THAT(said_of("blocks.1.mlp_value", rectified),
              MatchesRegex(R"(.*% of the values are 0, the others are right)"));
}

// Dropout on a branch is not seen in the dump until the sum.
TEST_F(ErrorShape, WhatIsAddedToTheStreamIsLookedAtOnItsOwn) {
  MadeDump dump = right_;
  const std::string sum = "blocks.1.resid_mid";
  const std::vector<double> stream = to_f64(dump.at("blocks.0.resid_post").view());
  const std::vector<double> branch = to_f64(dump.at("blocks.1.attn_out").view());
  Generator generator(5);
  std::vector<double> chance(branch.size());
  generator.rand(std::span<double>(chance));
  for (size_t i = 0; i < branch.size(); ++i) {
    const double added = chance[i] < 0.5 ? 0 : 2 * branch[i];
    dump.at(sum).data<float>()[i] = static_cast<float>(stream[i] + added);
  }
  dump.keep([&](const std::string& name) {
    return name == "tokens" || name == "blocks.0.resid_post" || name == "blocks.1.attn_out" ||
           name == sum;
  });
  EXPECT_THAT(shape_in(dump, sum),
              MatchesRegex(R"(in what is added to the stream: [45].\.. % of the values are 0, )"
                           "the others 2 times as large: dropout of rate 0.5"));
}

}  // namespace
}  // namespace mainstem
