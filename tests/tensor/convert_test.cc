#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "mainstem/error.h"
#include "mainstem/tensor.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace mainstem {
namespace {

/// Value of a small IEEE-like format by its definition.
struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  double value(uint32_t pattern) const {
    const auto mantissa = static_cast<int>(pattern & ((1u << mantissa_bits) - 1));
    const auto exponent = static_cast<int>(pattern >> mantissa_bits & ((1u << exponent_bits) - 1));
    const double sign = (pattern >> (bits() - 1) & 1) != 0 ? -1 : 1;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const bool top = exponent == (1 << exponent_bits) - 1;
    if (top && has_infinity) {
      if (mantissa != 0) return std::numeric_limits<double>::quiet_NaN();
      return sign * std::numeric_limits<double>::infinity();
    }
    if (top && mantissa == (1 << mantissa_bits) - 1)
      return std::numeric_limits<double>::quiet_NaN();
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
};

constexpr Format kHalf{5, 10, true};
constexpr Format kBrain{8, 7, true};
constexpr Format kE4M3{4, 3, false};
constexpr Format kE5M2{5, 2, true};

bool same_value(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

TEST(SmallFloats, WidenAllPatterns) {
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    ASSERT_TRUE(same_value(f16_to_f32(bits), kHalf.value(pattern))) << pattern;
    ASSERT_TRUE(same_value(bf16_to_f32(bits), kBrain.value(pattern))) << pattern;
  }
}

TEST(SmallFloats, EightBitTypesWidenAllPatterns) {
  std::vector<uint8_t> patterns(256);
  for (size_t i = 0; i < 256; ++i) patterns[i] = static_cast<uint8_t>(i);
  const auto e4m3 = to_f32(TensorView(DType::kF8E4M3, {256}, patterns.data()));
  const auto e5m2 = to_f64(TensorView(DType::kF8E5M2, {256}, patterns.data()));
  for (uint32_t i = 0; i < 256; ++i) {
    EXPECT_TRUE(same_value(e4m3[i], kE4M3.value(i))) << i << " " << e4m3[i];
    EXPECT_TRUE(same_value(e5m2[i], kE5M2.value(i))) << i << " " << e5m2[i];
  }
  EXPECT_EQ(e4m3[0x7e], 448);
  EXPECT_TRUE(std::isnan(e4m3[0x7f]) && std::isnan(e4m3[0xff]));
  EXPECT_EQ(e5m2[0x7b], 57344);
}

/// Checks `narrow` at, halfway between and beside all neighbouring values of a format.
void expect_rounds_to_nearest_even(const Format& format, uint16_t (*narrow)(float),
                                   float (*widen)(uint16_t)) {
  const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
  for (uint32_t sign : {0u, 0x8000u}) {
    for (uint32_t pattern = 0; pattern < infinity; ++pattern) {
      const auto here = static_cast<uint16_t>(sign | pattern);
      const auto next = static_cast<uint16_t>(sign | (pattern + 1));
      ASSERT_EQ(narrow(widen(here)), here);
      // The value after the largest one is where the format would go on.
      const double step =
          format.value(pattern) -
          format.value(pattern == 0 ? 0x8001u : pattern - 1) * (pattern == 0 ? -1 : 1);
      const double after =
          pattern + 1 == infinity ? format.value(pattern) + step : format.value(pattern + 1);
      const auto middle = static_cast<float>((format.value(pattern) + after) / 2);
      const float signed_middle = sign != 0 ? -middle : middle;
      const uint16_t even = (pattern & 1) == 0 ? here : next;
      ASSERT_EQ(narrow(signed_middle), even) << pattern;
      const auto bits = std::bit_cast<uint32_t>(signed_middle);
      ASSERT_EQ(narrow(std::bit_cast<float>(bits - 1)), here) << pattern;
      ASSERT_EQ(narrow(std::bit_cast<float>(bits + 1)), next) << pattern;
    }
    ASSERT_EQ(narrow(widen(static_cast<uint16_t>(sign | infinity))), sign | infinity);
  }
}

TEST(SmallFloats, HalfRoundsToNearestEven) {
  expect_rounds_to_nearest_even(kHalf, f32_to_f16, f16_to_f32);
}

TEST(SmallFloats, BrainRoundsToNearestEven) {
  expect_rounds_to_nearest_even(kBrain, f32_to_bf16, bf16_to_f32);
}

TEST(SmallFloats, NanStaysNanWithItsSign) {
  for (uint32_t payload = 1; payload < 0x800000u; payload = payload * 2 + 1) {
    for (uint32_t sign : {0u, 0x80000000u}) {
      const auto nan = std::bit_cast<float>(sign | 0x7f800000u | payload);
      ASSERT_TRUE(std::isnan(f16_to_f32(f32_to_f16(nan)))) << payload;
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(nan)))) << payload;
      EXPECT_EQ(f32_to_f16(nan) >> 15, sign >> 31);
      EXPECT_EQ(f32_to_bf16(nan) >> 15, sign >> 31);
    }
  }
}

TEST(SmallFloats, HalfOverflowsToInfinity) {
  const auto smallest = std::bit_cast<uint32_t>(65520.0f);
  for (uint32_t bits = smallest; bits <= 0x7f800000u; bits += 0x1ffu) {
    ASSERT_EQ(f32_to_f16(std::bit_cast<float>(bits)), 0x7c00) << bits;
    ASSERT_EQ(f32_to_f16(std::bit_cast<float>(bits | 0x80000000u)), 0xfc00) << bits;
  }
}

TEST(SmallFloats, SpecialValues) {
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_bf16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);
  EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_bf16(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

/// Conversions of every pattern, as bits.
std::vector<uint32_t> all_conversions() {
  std::vector<uint32_t> results;
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    results.push_back(std::bit_cast<uint32_t>(f16_to_f32(bits)));
    results.push_back(std::bit_cast<uint32_t>(bf16_to_f32(bits)));
    results.push_back(f32_to_f16(std::bit_cast<float>(pattern * 65537u)));
    results.push_back(f32_to_bf16(std::bit_cast<float>(pattern * 65537u)));
  }
  return results;
}

TEST(SmallFloats, DoNotDependOnTheFloatingPointEnvironment) {
  const std::vector<uint32_t> expected = all_conversions();
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const std::vector<uint32_t> got = all_conversions();
    std::fesetround(FE_TONEAREST);
    EXPECT_TRUE(got == expected) << mode;
  }
#if defined(__SSE2__)
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040u);  // flush to zero, denormals are zero
  const std::vector<uint32_t> got = all_conversions();
  _mm_setcsr(saved);
  EXPECT_TRUE(got == expected);
#endif
}

// ---- read_row ----

template <typename T>
std::vector<double> widened(DType dtype, const std::vector<T>& values) {
  return to_f64(TensorView(dtype, {static_cast<int64_t>(values.size())}, values.data()));
}

TEST(ReadRow, ConvertsIntegersOfEveryWidth) {
  EXPECT_EQ(widened<uint8_t>(DType::kBool, {0, 1, 2, 255}), (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(widened<uint8_t>(DType::kU8, {0, 255}), (std::vector<double>{0, 255}));
  EXPECT_EQ(widened<int8_t>(DType::kI8, {-128, 127}), (std::vector<double>{-128, 127}));
  EXPECT_EQ(widened<uint16_t>(DType::kU16, {65535}), std::vector<double>{65535});
  EXPECT_EQ(widened<int16_t>(DType::kI16, {-32768}), std::vector<double>{-32768});
  EXPECT_EQ(widened<uint32_t>(DType::kU32, {4294967295u}), std::vector<double>{4294967295.0});
  EXPECT_EQ(widened<int32_t>(DType::kI32, {-2147483647 - 1}), std::vector<double>{-2147483648.0});
  EXPECT_EQ(widened<uint64_t>(DType::kU64, {~uint64_t{0}}), std::vector<double>{0x1p64});
  EXPECT_EQ(widened<int64_t>(DType::kI64, {-5, int64_t{1} << 53}),
            (std::vector<double>{-5, 0x1p53}));
}

TEST(ReadRow, RoundsOnce) {
  // Rounding through double first would give 1 + 2^-23 in neither case.
  const std::vector<double> doubles = {1 + 0x1p-24 + 0x1p-50, 1 + 0x1p-24, 0.1, 1e300};
  const auto floats = to_f32(TensorView(DType::kF64, {4}, doubles.data()));
  EXPECT_EQ(floats[0], 1 + 0x1p-23f);
  EXPECT_EQ(floats[1], 1.0f);
  EXPECT_EQ(floats[2], 0.1f);
  EXPECT_EQ(floats[3], std::numeric_limits<float>::infinity());
  // Half a unit of float above 2^60 plus one: a double cannot hold it, so a detour would drop it.
  const std::vector<int64_t> integers = {(int64_t{1} << 60) + (int64_t{1} << 36) + 1};
  EXPECT_EQ(to_f32(TensorView(DType::kI64, {1}, integers.data()))[0], 0x1p60f + 0x1p37f);
}

TEST(ReadRow, ReadsRowsAndPartsOfThem) {
  const std::vector<float> data = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const TensorView view(DType::kF32, {2, 2, 3}, data.data());
  std::vector<float> row(3);
  read_row(view, 3, row.data());
  EXPECT_EQ(row, (std::vector<float>{9, 10, 11}));
  std::vector<double> part(2, -1);
  read_row(view, 1, 1, 3, part.data());
  EXPECT_EQ(part, (std::vector<double>{4, 5}));
  read_row(view, 1, 3, 3, part.data());  // nothing to read
  EXPECT_EQ(part, (std::vector<double>{4, 5}));

  EXPECT_THROW(read_row(view, 4, row.data()), Error);
  EXPECT_THROW(read_row(view, -1, row.data()), Error);
  EXPECT_THROW(read_row(view, 0, 0, 4, row.data()), Error);
  EXPECT_THROW(read_row(view, 0, 2, 1, row.data()), Error);
  EXPECT_THROW(read_row(view, 0, -1, 1, row.data()), Error);
}

TEST(ReadRow, ReadsUnalignedData) {
  std::vector<std::byte> raw(1 + 3 * sizeof(double));
  const double values[3] = {0.1, -2.5, 1e-310};
  std::memcpy(raw.data() + 1, values, sizeof values);
  EXPECT_EQ(to_f64(TensorView(DType::kF64, {3}, raw.data() + 1)),
            (std::vector<double>{0.1, -2.5, 1e-310}));
}

TEST(ReadRow, ReadsScalarsAndNothing) {
  const double value = 4.25;
  const TensorView scalar(DType::kF64, {}, &value);
  float out = 0;
  read_row(scalar, 0, &out);
  EXPECT_EQ(out, 4.25f);
  EXPECT_EQ(to_f32(scalar), std::vector<float>{4.25f});
  EXPECT_TRUE(to_f32(TensorView(DType::kF32, {0, 3}, nullptr)).empty());
  EXPECT_TRUE(to_f64(TensorView(DType::kQ4_0, {2, 0}, nullptr)).empty());
}

}  // namespace
}  // namespace mainstem
