// The lesson's runnable block: its state dict, its initialisation and its two tests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lesson/golden.h"
#include "mainstem/block.h"
#include "mainstem/error.h"

namespace mainstem::lesson {
namespace {

using ::testing::HasSubstr;

const std::string kFile = "decoder_block.safetensors";

Block golden_block() {
  return {decoder_block_spec(kSmallBlock),
          decoder_block_weights(kSmallBlock, golden_file(kFile), "param.")};
}

Block fresh_block(const DecoderBlockOptions& options, Generator& generator) {
  return {decoder_block_spec(options),
          decoder_block_weights(options, init_decoder_block(options, generator))};
}

TEST(DecoderBlock, IsInitialisedAsTorchDoes) {
  Generator generator(42);
  const StateDict state = init_decoder_block(kSmallBlock, generator);
  ASSERT_EQ(state.size(), 8u);
  for (const StateEntry& entry : state) {
    const TensorView want = golden_file(kFile).view("param." + entry.name);
    EXPECT_EQ(entry.value.shape(), want.shape()) << entry.name;
    EXPECT_TRUE(testing::same_bits(to_f32(entry.value.view()), to_f32(want))) << entry.name;
  }
  const auto x = to_f32(golden_file(kFile).view("X"));
  EXPECT_TRUE(testing::same_bits(draw_normal(generator, 1 * 4 * 32), x));
}

TEST(DecoderBlock, StateDictIsInTorchsOrder) {
  std::vector<std::string> names;
  for (const WeightInfo& info : decoder_block_state(kSmallBlock)) {
    names.push_back(info.name + " " + to_string(info.shape));
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("norm1.weight [32]", "attn.in_proj_weight [96, 32]",
                                     "attn.in_proj_bias [96]", "attn.out_proj.weight [32, 32]",
                                     "attn.out_proj.bias [32]", "norm2.weight [32]",
                                     "mlp.w.weight [128, 32]", "mlp.w_out.weight [32, 64]"));
}

TEST(DecoderBlock, OutputIsTorchs) {
  const Block block = golden_block();
  for (const std::string suffix : {"", "_corrupt"}) {
    const auto x = to_f32(golden_file(kFile).view("X" + suffix));
    const auto exact = golden_values(kFile, "out" + suffix + "_f64");
    EXPECT_TRUE(testing::close(block.forward(widened(x), 1), exact, kFloat64));
    for (Compute compute : {Compute::kF32, Compute::kF32Reference}) {
      const auto out = widened(block.forward(x, 1, compute));
      EXPECT_TRUE(testing::close(out, exact, kFloat32));
      EXPECT_TRUE(testing::close(out, golden_values(kFile, "out" + suffix), kFloat32));
    }
  }
}

TEST(DecoderBlock, PositionsBeforeACorruptedOneKeepTheirBits) {
  const Block block = golden_block();
  const auto x = to_f32(golden_file(kFile).view("X"));
  const auto corrupt = to_f32(golden_file(kFile).view("X_corrupt"));
  const auto moved_by =
      numbers(golden_json("decoder_block.json").at("causal").at("max_abs_diff_position"));
  for (Compute compute : {Compute::kF32, Compute::kF32Reference, Compute::kF64}) {
    const auto a = block.forward(x, 1, compute);
    const auto b = block.forward(corrupt, 1, compute);
    EXPECT_TRUE(testing::same_bits(std::span(b).first(2 * 32), std::span(a).first(2 * 32)));
    for (size_t position = 0; position < 4; ++position) {
      double moved = 0;
      for (size_t i = position * 32; i < position * 32 + 32; ++i) {
        moved = std::max(moved, std::abs(double{a[i]} - double{b[i]}));
      }
      // PyTorch's differences are given with three digits.
      EXPECT_NEAR(moved, moved_by[position], 5e-3 * moved_by[position]) << position;
    }
  }
}

/// Sums of values that are right to `tolerance` times the largest of them.
void expect_sums(std::span<const double> got, const nlohmann::json& want, double tolerance) {
  double sum = 0, magnitudes = 0, squares = 0, largest = 0;
  for (double value : got) {
    sum += value;
    magnitudes += std::abs(value);
    squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  // Errors of the values, and of two sums in double in different orders, add up at random.
  const double steps = std::sqrt(static_cast<double>(got.size()));
  const double sum_error = 4 * steps * std::numeric_limits<double>::epsilon();
  EXPECT_NEAR(sum, want.at("sum").get<double>(),
              steps * tolerance * largest + sum_error * magnitudes);
  if (!want.contains("sum_of_squares")) return;
  EXPECT_NEAR(squares, want.at("sum_of_squares").get<double>(),
              2 * tolerance * largest * magnitudes / steps + sum_error * squares);
}

void expect_summary(std::span<const double> got, const nlohmann::json& want, double tolerance) {
  double largest = 0;
  for (double value : got) largest = std::max(largest, std::abs(value));
  const auto bound = [&](size_t) { return tolerance * largest; };
  EXPECT_TRUE(testing::close(got.first(16), numbers(want.at("first_16")), bound));
  if (want.contains("last_16")) {
    EXPECT_TRUE(testing::close(got.last(16), numbers(want.at("last_16")), bound));
  }
  expect_sums(got, want, tolerance);
}

// The lesson's listing from its first line to its last: one seed for all of it.
TEST(DecoderBlock, BothOfTheLessonsTestsAsPrinted) {
  const nlohmann::json golden = golden_json("decoder_block.json");
  Generator generator(42);

  // Test 1: shape preservation
  const DecoderBlockOptions options{.width = 256, .heads = 8};
  const StateDict state = init_decoder_block(options, generator);
  for (const StateEntry& entry : state) {
    SCOPED_TRACE(entry.name);
    const auto values = to_f64(entry.value.view());
    const nlohmann::json& want = golden.at("d256").at("parameters").at(entry.name);
    const auto first = numbers(want.at("first_4"));
    EXPECT_EQ(std::vector<double>(values.begin(), values.begin() + 4),
              widened(std::vector<float>(first.begin(), first.end())));
    expect_sums(values, want, 0);
  }
  const Block block(decoder_block_spec(options), decoder_block_weights(options, state));
  const std::vector<float> x = draw_normal(generator, 2 * 128 * 256);
  expect_sums(widened(x), golden.at("d256").at("X"), 0);
  const std::vector<float> out = block.forward(x, 2);
  ASSERT_EQ(out.size(), x.size());
  const auto traced =
      block.trace(widened(x), 2, {{.site = Site::kResidPost, .layer = 0}}, Compute::kF32);
  ASSERT_FALSE(traced.empty());
  EXPECT_EQ(traced.back().value.shape(), (Shape{2, 128, 256}));
  expect_summary(widened(out), golden.at("d256").at("float32"), kFloat32);
  expect_summary(block.forward(widened(x), 2), golden.at("d256").at("float64"), kFloat64);

  // Test 2: causal safety
  const Block block2 = fresh_block({.width = 32, .heads = 4}, generator);
  const std::vector<float> base = draw_normal(generator, 1 * 4 * 32);
  std::vector<float> corrupt = base;
  std::fill_n(corrupt.begin() + 2 * 32, 32, 999.0F);
  const auto out_base = block2.forward(base, 1);
  const auto out_corrupt = block2.forward(corrupt, 1);
  EXPECT_TRUE(
      testing::same_bits(std::span(out_corrupt).first(2 * 32), std::span(out_base).first(2 * 32)));
  EXPECT_FALSE(testing::close(widened(out_corrupt), widened(out_base), 1e-3));

  const nlohmann::json& test2 = golden.at("lesson_test2");
  const auto first = numbers(test2.at("X_base").at("first_16"));
  EXPECT_TRUE(testing::same_bits(std::span<const float>(base).first(16),
                                 std::vector<float>(first.begin(), first.end())));
  expect_summary(widened(out_base),
                 {{"first_16", test2.at("out_base_first_16")},
                  {"sum", test2.at("out_base_sum")},
                  {"sum_of_squares", test2.at("out_base_sum_of_squares")}},
                 kFloat32);
}

TEST(DecoderBlock, WeightsOutliveTheFileTheyCameFrom) {
  WeightSources sources;
  {
    const auto file = SafetensorsFile::open(golden_path(kFile));
    sources = decoder_block_weights(kSmallBlock, file, "param.");
  }
  const Block block(decoder_block_spec(kSmallBlock), sources);
  const auto x = golden_values(kFile, "X");
  EXPECT_TRUE(testing::close(block.forward(x, 1), golden_values(kFile, "out_f64"), kFloat64));
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<NamedTensor> views(const StateDict& state) {
  std::vector<NamedTensor> result;
  for (const StateEntry& entry : state) result.push_back({entry.name, entry.value.view()});
  return result;
}

TEST(DecoderBlock, AllWrongNamesAreListed) {
  Generator generator(1);
  StateDict state = init_decoder_block(kSmallBlock, generator);
  state[0].name = "ln_1.weight";
  state[3].name = "attn.c_proj.weight";
  state.push_back(state[7]);
  const std::string text = error_of([&] { decoder_block_weights(kSmallBlock, state); });
  EXPECT_THAT(text, HasSubstr("no norm1.weight, attn.out_proj.weight; "
                              "unknown attn.c_proj.weight, ln_1.weight; twice mlp.w_out.weight"));
}

TEST(DecoderBlock, AFileOfAnotherBlockSaysWhatDiffers) {
  const std::string text = error_of(
      [] { decoder_block_weights(kSmallBlock, golden_file("exercise3.safetensors"), "param."); });
  EXPECT_THAT(text, HasSubstr("no mlp.w.weight, mlp.w_out.weight; unknown mlp.0.bias, "
                              "mlp.0.weight, mlp.2.bias, mlp.2.weight, norm1.bias, norm2.bias"));
  EXPECT_THAT(text, HasSubstr("exercise3.safetensors"));
}

TEST(DecoderBlock, AWrongTypeIsNamed) {
  Generator generator(1);
  StateDict state = init_decoder_block(kSmallBlock, generator);
  state[1].value = Tensor(DType::kI64, {96, 32});
  EXPECT_THAT(error_of([&] { decoder_block_weights(kSmallBlock, views(state)); }),
              HasSubstr("type: expected a floating-point type, got i64; in attn.in_proj_weight"));
}

TEST(DecoderBlock, HeadsMustDivideTheWidth) {
  EXPECT_THAT(error_of([] { decoder_block_spec({.width = 32, .heads = 5}); }),
              HasSubstr("width 32, heads 5"));
  EXPECT_THROW(decoder_block_spec({.width = 32, .heads = 0}), Error);
  EXPECT_THROW(decoder_block_spec({.width = 0, .heads = 4}), Error);
}

}  // namespace
}  // namespace mainstem::lesson
