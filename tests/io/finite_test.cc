// F21: NaN and Inf in weights or block scales load silently; the check must find each place.

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "io/test_files.h"
#include "mainstem/stored_tensor.h"

namespace mainstem {
namespace {

constexpr uint16_t kInfinityF16 = 0x7C00, kNanF16 = 0x7E01;

TEST(FirstNonFinite, F21_PlainFloats) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values(15, 1.f);
  values[3] = std::numeric_limits<float>::max();
  EXPECT_EQ(first_non_finite(Tensor::from_f32({3, 5}, values).view()), std::nullopt);
  for (const float bad : {inf, -inf, nan}) {
    for (const size_t at : {size_t{0}, size_t{7}, size_t{14}}) {
      std::vector<float> broken = values;
      broken[at] = bad;
      EXPECT_EQ(first_non_finite(Tensor::from_f32({3, 5}, broken).view()),
                static_cast<int64_t>(at));
    }
  }
}

// Float32 kernels overflow on weights that double still holds.
TEST(FirstNonFinite, F21_DoublesBeyondFloat32) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  std::vector<double> values(15, -kLargest);
  const Tensor fits = Tensor::from_f64({3, 5}, values);
  EXPECT_EQ(first_non_finite(fits.view()), std::nullopt);
  EXPECT_EQ(first_non_finite(fits.view(), NumberRange::kFloat32), std::nullopt);
  values[11] = 2 * kLargest;
  const Tensor wide = Tensor::from_f64({3, 5}, values);
  EXPECT_EQ(first_non_finite(wide.view()), std::nullopt);
  EXPECT_EQ(first_non_finite(wide.view(), NumberRange::kFloat32), 11);
  for (const double bad :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::quiet_NaN()}) {
    values[4] = bad;
    const Tensor broken = Tensor::from_f64({3, 5}, values);
    EXPECT_EQ(first_non_finite(broken.view()), 4);
    EXPECT_EQ(first_non_finite(broken.view(), NumberRange::kFloat32), 4);
  }
}

TEST(FirstNonFinite, F21_HalfTypes) {
  for (const auto& [dtype, bits] : {std::pair{DType::kF16, kInfinityF16},
                                    {DType::kF16, kNanF16},
                                    {DType::kBF16, uint16_t{0x7F80}},
                                    {DType::kBF16, uint16_t{0xFFC0}}}) {
    Tensor tensor(dtype, {4});
    EXPECT_EQ(first_non_finite(tensor.view()), std::nullopt);
    tensor.data<uint16_t>()[2] = bits;
    EXPECT_EQ(first_non_finite(tensor.view()), 2);
  }
}

TEST(FirstNonFinite, F21_ScalesOfQuantisedBlocks) {
  struct Case {
    DType dtype;
    std::vector<size_t> scales;
  };
  for (const Case& one :
       {Case{DType::kQ4_0, {0}}, Case{DType::kQ4_1, {0, 2}}, Case{DType::kQ5_0, {0}},
        Case{DType::kQ5_1, {0, 2}}, Case{DType::kQ8_0, {0}}, Case{DType::kQ2_K, {80, 82}},
        Case{DType::kQ3_K, {108}}, Case{DType::kQ4_K, {0, 2}}, Case{DType::kQ5_K, {0, 2}},
        Case{DType::kQ6_K, {208}}}) {
    SCOPED_TRACE(name(one.dtype));
    const DTypeInfo& type = info(one.dtype);
    for (const size_t scale : one.scales) {
      Tensor tensor(one.dtype, {2, 2 * type.block_elements});
      EXPECT_EQ(first_non_finite(tensor.view()), std::nullopt);
      const size_t at = 3 * static_cast<size_t>(type.block_bytes) + scale;
      std::memcpy(tensor.data<std::byte>() + at, &kInfinityF16, 2);
      EXPECT_EQ(first_non_finite(tensor.view()), 3 * type.block_elements);
      // The dequantised values agree that this block is broken.
      const std::vector<double> values = to_f64(tensor.view());
      EXPECT_FALSE(std::isfinite(values[static_cast<size_t>(3 * type.block_elements)]));
    }
  }
}

TEST(FirstNonFinite, F21_IntegersAndEmptyTensorsHaveNone) {
  EXPECT_EQ(first_non_finite(Tensor(DType::kI64, {3}).view()), std::nullopt);
  EXPECT_EQ(first_non_finite(Tensor(DType::kF32, {0}).view()), std::nullopt);
}

}  // namespace
}  // namespace mainstem
