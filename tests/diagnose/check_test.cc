#include "mainstem/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mainstem/decoder_block.h"
#include "support/random_model.h"

namespace mainstem {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

CheckResult result_of(const std::vector<CheckResult>& results, const std::string& id) {
  for (const CheckResult& result : results) {
    if (result.id == id) return result;
  }
  return {id, CheckStatus::kNotApplicable, "no such check"};
}

// Two outputs that overflow cannot be called equal.
TEST(Check, OutputsThatAreNotFinitePassNoComparison) {
  const DecoderBlockOptions options{.width = 16, .heads = 2};
  Generator generator(1);
  StateDict state = init_decoder_block(options, generator);
  for (StateEntry& entry : state) {
    if (entry.name != "mlp.w.weight") continue;
    float* values = entry.value.data<float>();
    for (int64_t i = 0; i < entry.value.count(); ++i) values[i] *= 1e25F;
  }
  const WeightSources weights = decoder_block_weights(options, state);
  const auto results =
      check(build_block_program(decoder_block_spec(options)), weights, {.threads = 1});
  EXPECT_EQ(result_of(results, "weights").status, CheckStatus::kOk);
  for (const char* id : {"causal", "batch"}) {
    const CheckResult result = result_of(results, id);
    EXPECT_EQ(result.status, CheckStatus::kFailed) << id;
    EXPECT_THAT(result.detail, HasSubstr(" by nan")) << id;
  }
  for (const CheckResult& result : results) {
    EXPECT_THAT(result.detail, Not(HasSubstr("-nan"))) << result.id;
  }
}

TEST(Check, NamesTheFirstWeightThatIsNotFinite) {
  const DecoderBlockOptions options{.width = 16, .heads = 2};
  Generator generator(1);
  StateDict state = init_decoder_block(options, generator);
  for (StateEntry& entry : state) {
    if (entry.name == "mlp.w.weight")
      entry.value.data<float>()[3 * 16 + 5] =
          std::copysign(std::numeric_limits<float>::quiet_NaN(), -1.0F);
  }
  const WeightSources weights = decoder_block_weights(options, state);
  const auto results =
      check(build_block_program(decoder_block_spec(options)), weights, {.threads = 1});
  const CheckResult result = result_of(results, "weights");
  EXPECT_EQ(result.status, CheckStatus::kFailed);
  EXPECT_THAT(result.detail, MatchesRegex("nan in .* at \\[3, 5\\]"));
}

TEST(Check, WeightsBeyondFloat32AreNotFiniteForItsKernels) {
  const DecoderBlockOptions options{.width = 16, .heads = 2};
  Generator generator(1);
  const StateDict state = init_decoder_block(options, generator);
  WeightSources weights = decoder_block_weights(options, state);
  auto& [name, source] = *weights.begin();
  std::vector<double> values = to_f64(source.tensor);
  values.back() = -1e39;
  const Tensor wide = Tensor::from_f64(source.tensor.shape(), values);
  source.tensor = wide.view();
  const auto results =
      check(build_block_program(decoder_block_spec(options)), weights, {.threads = 1});
  const CheckResult result = result_of(results, "weights");
  EXPECT_EQ(result.status, CheckStatus::kFailed);
  EXPECT_THAT(result.detail, HasSubstr("-inf in " + name));
}

struct Halt {};

// Progress only grows, ends at the whole, and whoever is told of it may stop the check there.
TEST(Check, TellsItsProgressAndStopsAnywhere) {
  const testing::TestModel model = testing::make_model(testing::small_decoder(), 3);
  std::vector<int64_t> seen;
  int64_t whole = 0;
  const auto run = [&](size_t stop_after) {
    seen.clear();
    return check(model.program(), model.sources,
                 {.threads = 1, .progress = [&](int64_t done, int64_t total) {
                    seen.push_back(done);
                    whole = total;
                    if (seen.size() == stop_after) throw Halt{};
                  }});
  };
  const std::vector<CheckResult> results = run(0);
  EXPECT_EQ(seen.front(), 0);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), whole);
  // Every pass shows: the bar never jumps over more than a twentieth of the way.
  for (size_t i = 1; i < seen.size(); ++i) EXPECT_LE(seen[i] - seen[i - 1], whole / 20) << i;
  const size_t calls = seen.size();
  EXPECT_GT(calls, 300U);
  for (size_t stop = 1; stop <= calls; stop += 7) {
    EXPECT_THROW(run(stop), Halt) << stop;
    EXPECT_EQ(seen.size(), stop);
  }
  const std::vector<CheckResult> again = check(model.program(), model.sources, {.threads = 1});
  ASSERT_EQ(again.size(), results.size());
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(again[i].detail, results[i].detail);
}

}  // namespace
}  // namespace mainstem
