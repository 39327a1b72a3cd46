#include "kernels/reference/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu_test_util.h"

namespace mainstem::reference {
namespace {

using test::Random;

std::vector<double> random_row(size_t count, uint32_t seed) {
  Random random(seed);
  const std::vector<float> x = random.normals(static_cast<int64_t>(count));
  return {x.begin(), x.end()};
}

struct Form {
  DType weights;
  size_t block;
  bool f16_scale, scale_is_f16;
};

TEST(RoundProductInput, BlocksHoldMultiplesOfOneScale) {
  for (const Form& form : {Form{DType::kQ4_1, 32, true, true}, Form{DType::kQ8_0, 32, false, false},
                           Form{DType::kQ6_K, 256, true, false}}) {
    const std::vector<double> x = random_row(512, 3);
    std::vector<double> y = x;
    round_product_input(form.weights, form.f16_scale, y);
    for (size_t begin = 0; begin < x.size(); begin += form.block) {
      double largest = 0;
      for (size_t i = begin; i < begin + form.block; ++i)
        largest = std::max(largest, std::fabs(x[i]));
      auto scale = static_cast<float>(largest) / 127;
      if (form.scale_is_f16) scale = f16_to_f32(f32_to_f16(scale));
      int most = 0;
      for (size_t i = begin; i < begin + form.block; ++i) {
        const auto q = static_cast<float>(std::nearbyint(y[i] / static_cast<double>(scale)));
        EXPECT_EQ(y[i], static_cast<double>(q * scale)) << name(form.weights) << " " << i;
        most = std::max(most, static_cast<int>(std::fabs(q)));
        // Half a step, and what float16 does to the scale.
        EXPECT_LE(std::fabs(y[i] - x[i]), largest / 127 * 0.5001 + largest * 0x1p-11);
      }
      EXPECT_EQ(most, 127);
    }
  }
}

TEST(RoundProductInput, SixteenBitWeightsRoundTheirInputsLikewise) {
  const std::vector<double> x = random_row(70, 4);
  std::vector<double> half = x, brain = x, wide = x;
  round_product_input(DType::kF16, true, half);
  round_product_input(DType::kBF16, true, brain);
  round_product_input(DType::kF32, true, wide);
  EXPECT_EQ(wide, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto narrow = static_cast<float>(x[i]);
    EXPECT_EQ(half[i], static_cast<double>(f16_to_f32(f32_to_f16(narrow))));
    EXPECT_EQ(brain[i], static_cast<double>(bf16_to_f32(f32_to_bf16(narrow))));
  }
}

TEST(RoundProductInput, ZerosAndWhatIsNotFinite) {
  std::vector<double> zeros(32);
  round_product_input(DType::kQ4_0, true, zeros);
  EXPECT_EQ(zeros, std::vector<double>(32));
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    std::vector<double> x(64, 1.0);
    x[40] = bad;
    round_product_input(DType::kQ4_0, true, x);
    EXPECT_FALSE(std::isfinite(x[40]));
    EXPECT_NEAR(x[0], 1.0, 0x1p-11);
  }
}

}  // namespace
}  // namespace mainstem::reference
