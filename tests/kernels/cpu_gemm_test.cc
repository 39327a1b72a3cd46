#include <gtest/gtest.h>

#include "kernels/cpu_test_util.h"

namespace mainstem::kernels {
namespace {

using test::compare;
using test::Packed;
using test::Random;
using test::RandomMatrix;
using test::run_gemm;

struct Expected {
  std::vector<double> y, bound;
};

/// y = x w^T in plain double loops, with the bound of a float32 dot product.
Expected plain_product(const std::vector<float>& x, const RandomMatrix& w, int64_t rows) {
  const int64_t columns = w.view.columns(), outputs = w.view.rows();
  Expected e;
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < outputs; ++n) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < columns; ++k) {
        const double p = static_cast<double>(x[static_cast<size_t>(m * columns + k)]) *
                         w.values[static_cast<size_t>(n * columns + k)];
        sum += p;
        magnitude += std::fabs(p);
      }
      e.y.push_back(sum);
      // One more rounding per weight: d q + m as float32.
      e.bound.push_back(test::dot_bound(static_cast<double>(columns), magnitude, 1));
    }
  }
  return e;
}

/// The inputs as int8 and scale per 32, exactly as the kernels promise to round them.
struct Rounded {
  std::vector<double> x, scale;
};
Rounded round_inputs(const std::vector<float>& x) {
  Rounded r;
  for (size_t b = 0; b < x.size(); b += 32) {
    float largest = 0;
    for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[b + i]));
    const float scale = largest / 127.0f;
    for (size_t i = 0; i < 32; ++i) {
      const float q = largest > 0 ? std::nearbyint(x[b + i] * (127.0f / largest)) : 0.0f;
      r.x.push_back(static_cast<double>(q) * static_cast<double>(scale));
      r.scale.push_back(static_cast<double>(scale));
    }
  }
  return r;
}

/// The product of the rounded inputs. The integer sums are exact; per block two terms of three
/// roundings each are added.
Expected rounded_product(const Rounded& x, const RandomMatrix& w, int64_t rows) {
  const int64_t columns = w.view.columns(), outputs = w.view.rows();
  Expected e;
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < outputs; ++n) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < columns; ++k) {
        const double v = w.values[static_cast<size_t>(n * columns + k)];
        const double p = x.x[static_cast<size_t>(m * columns + k)] * v;
        sum += p;
        // d q and m are added apart: |d q| + |m| <= |v| + 2 |m|.
        magnitude += std::fabs(p) + std::fabs(x.x[static_cast<size_t>(m * columns + k)]) * 2 *
                                        RandomMatrix::kLargestMinimum;
      }
      e.y.push_back(sum);
      e.bound.push_back(test::dot_bound(2.0 * static_cast<double>(columns / 32) + 6, magnitude));
    }
  }
  return e;
}

struct Case {
  DType dtype;
  bool plain;
  InputPrecision precision;
};

std::string describe(const Case& c, Isa isa, int64_t m, int64_t n, int64_t k, int workers) {
  return std::string(name(c.dtype)) + (c.plain ? " plain" : " packed") +
         (c.precision == InputPrecision::kInt8 ? " int8" : " f32") + " " + std::string(name(isa)) +
         " M" + std::to_string(m) + " N" + std::to_string(n) + " K" + std::to_string(k) + " W" +
         std::to_string(workers);
}

void check_grid(const Case& c, const std::vector<int64_t>& row_counts,
                const std::vector<int64_t>& output_counts,
                const std::vector<int64_t>& column_counts) {
  Random random(7);
  for (const int64_t k : column_counts) {
    if (k % info(c.dtype).block_elements != 0) continue;
    for (const int64_t n : output_counts) {
      const RandomMatrix w(random, c.dtype, n, k);
      const Packed packed(w, c.plain);
      const int64_t most_rows = row_counts.back();
      const std::vector<float> x = random.normals(most_rows * k);
      const bool int8 = c.precision == InputPrecision::kInt8 && !c.plain &&
                        packed.matrix.format != PackFormat::kPlain && info(c.dtype).is_quantised;
      const Expected all =
          int8 ? rounded_product(round_inputs(x), w, most_rows) : plain_product(x, w, most_rows);
      for (const Isa isa : available_isas()) {
        std::vector<float> first_row;
        for (const int64_t m : row_counts) {
          std::vector<float> first;
          for (const int workers : {1, 2, 3}) {
            std::vector<float> y(static_cast<size_t>(m * n), -1e30f);
            const GemmPart part{
                .weight = &packed.matrix, .rows = n, .output = {.y = y.data(), .stride = n}};
            run_gemm(cpu_kernels(isa), {.x = x.data(), .stride = k, .rows = m, .columns = k},
                     c.precision, {&part, 1}, workers);
            if (workers == 1) {
              const auto count = static_cast<size_t>(m * n);
              const auto result = compare<float>(y, std::span(all.y).first(count),
                                                 std::span(all.bound).first(count));
              ASSERT_TRUE(result.pass) << describe(c, isa, m, n, k, workers) << ": " << result.text;
              first = y;
            }
            ASSERT_EQ(0, std::memcmp(first.data(), y.data(), y.size() * sizeof(float)))
                << "bits depend on workers: " << describe(c, isa, m, n, k, workers);
          }
          if (first_row.empty()) first_row.assign(first.begin(), first.begin() + n);
          ASSERT_EQ(0,
                    std::memcmp(first_row.data(), first.data(), first_row.size() * sizeof(float)))
              << "bits of a row depend on the other rows: " << describe(c, isa, m, n, k, 1);
        }
      }
    }
  }
}

TEST(CpuGemm, PrintsLevels) {
  std::string levels;
  for (const Isa isa : available_isas()) levels += " " + std::string(name(isa));
  std::printf("levels that ran:%s\n", levels.c_str());
  RecordProperty("levels", levels);
  EXPECT_EQ(available_isas().front(), Isa::kPortable);
}

class CpuGemmFormats : public testing::TestWithParam<Case> {};

TEST_P(CpuGemmFormats, OddSizes) {
  check_grid(GetParam(), {1, 2, 3, 4, 5, 6, 7, 12, 13, 29}, {1, 15, 16, 17, 33, 80},
             {1, 7, 32, 63, 64, 65, 96, 160, 256});
}

TEST_P(CpuGemmFormats, LongSums) {
  check_grid(GetParam(), {1, 2, 13}, {19}, {1025, 1536, 3328, 4097});
}

TEST_P(CpuGemmFormats, ManyRows) { check_grid(GetParam(), {1, 230}, {70}, {96, 257, 768}); }

const Case kCases[] = {
    {DType::kF32, false, InputPrecision::kF32},   {DType::kF32, true, InputPrecision::kF32},
    {DType::kF16, false, InputPrecision::kF32},   {DType::kF16, true, InputPrecision::kF32},
    {DType::kBF16, false, InputPrecision::kF32},  {DType::kBF16, true, InputPrecision::kF32},
    {DType::kQ4_0, false, InputPrecision::kF32},  {DType::kQ4_1, false, InputPrecision::kF32},
    {DType::kQ8_0, false, InputPrecision::kF32},  {DType::kQ4_0, false, InputPrecision::kInt8},
    {DType::kQ4_1, false, InputPrecision::kInt8}, {DType::kQ8_0, false, InputPrecision::kInt8},
    {DType::kF32, false, InputPrecision::kInt8},  {DType::kQ4_1, true, InputPrecision::kInt8},
    {DType::kQ5_0, true, InputPrecision::kF32},   {DType::kQ6_K, true, InputPrecision::kF32},
    {DType::kQ4_K, true, InputPrecision::kF32},   {DType::kF64, true, InputPrecision::kF32},
};
INSTANTIATE_TEST_SUITE_P(All, CpuGemmFormats, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& c) {
                           return std::string(name(c.param.dtype)) +
                                  (c.param.plain ? "_plain" : "_packed") +
                                  (c.param.precision == InputPrecision::kInt8 ? "_int8" : "_f32");
                         });

TEST(CpuPack, RestoresEveryBit) {
  Random random(3);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1,
                            DType::kQ8_0, DType::kQ6_K}) {
    const int64_t k = info(dtype).is_quantised ? 256 : 77;
    const RandomMatrix w(random, dtype, 37, k);
    const std::vector<int64_t> order = {5, 0, 36, 7, 7, 1, 2, 3, 4, 9, 10, 11, 12, 13, 14, 15, 20};
    const bool packs = pack_format_for(dtype) != PackFormat::kPlain;
    for (const bool ordered : {false, true}) {
      if (ordered && !packs) continue;
      const Packed packed(w, false,
                          ordered ? std::span<const int64_t>(order) : std::span<const int64_t>());
      for (int64_t n = 0; n < packed.matrix.rows; ++n) {
        std::vector<float> got(static_cast<size_t>(k)), expected(static_cast<size_t>(k));
        unpack_row(packed.matrix, n, got.data());
        read_row(w.view, ordered ? order[static_cast<size_t>(n)] : n, expected.data());
        ASSERT_EQ(0, std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)))
            << name(dtype) << " row " << n;
      }
    }
  }
}

/// Saturation: the largest weights and inputs of every 8-bit product.
TEST(CpuGemm, ExtremeIntegers) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
    for (const int pattern : {0, 1, 2, 3}) {
      Random random(11);
      RandomMatrix w(random, dtype, 16, 64);
      const DTypeInfo& type = info(dtype);
      for (int64_t b = 0; b < 16 * 2; ++b) {
        std::byte* block = w.bytes.data() + b * type.block_bytes;
        const int first = dtype == DType::kQ4_1 ? 4 : 2;
        for (int i = first; i < type.block_bytes; ++i) {
          const int q = pattern == 0 ? -128 : pattern == 1 ? 127 : i % 2 == 0 ? -128 : 127;
          block[i] = static_cast<std::byte>(dtype == DType::kQ8_0 ? q : pattern == 1 ? 0 : 255);
        }
      }
      for (int64_t n = 0; n < 16; ++n) read_row(w.view, n, w.values.data() + n * 64);
      const Packed packed(w, false);
      std::vector<float> x(64);
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = pattern == 3 && i % 2 == 0 ? 3.0f : pattern == 2 ? 3.0f : -3.0f;
      }
      const Expected e = rounded_product(round_inputs(x), w, 1);
      for (const Isa isa : available_isas()) {
        std::vector<float> y(16);
        const GemmPart part{
            .weight = &packed.matrix, .rows = 16, .output = {.y = y.data(), .stride = 16}};
        run_gemm(cpu_kernels(isa), {.x = x.data(), .stride = 64, .rows = 1, .columns = 64},
                 InputPrecision::kInt8, {&part, 1}, 1);
        const auto c = compare<float>(y, e.y, e.bound);
        EXPECT_TRUE(c.pass) << name(dtype) << " " << name(isa) << " pattern " << pattern << ": "
                            << c.text;
      }
    }
  }
}

/// Blocks of zeros, of tiny and of huge numbers; what is not finite must show.
TEST(CpuGemm, OddInputsAsInt8) {
  Random random(5);
  const RandomMatrix w(random, DType::kQ8_0, 20, 96);
  const Packed packed(w, false);
  for (const Isa isa : available_isas()) {
    for (const float value : {0.0f, 1e-44f, 1e-38f, 1e30f}) {
      std::vector<float> x = random.normals(96);
      std::fill(x.begin() + 32, x.begin() + 64, value);
      if (value == 0) std::fill(x.begin(), x.end(), value);
      std::vector<float> y(20, -1.0f);
      const GemmPart part{
          .weight = &packed.matrix, .rows = 20, .output = {.y = y.data(), .stride = 20}};
      run_gemm(cpu_kernels(isa), {.x = x.data(), .stride = 96, .rows = 1, .columns = 96},
               InputPrecision::kInt8, {&part, 1}, 1);
      std::vector<double> expected, bound;
      for (int64_t n = 0; n < 20; ++n) {
        double sum = 0, rounding = 0;
        for (int64_t k = 0; k < 96; ++k) {
          const double v = w.values[static_cast<size_t>(n * 96 + k)];
          float largest = 0;
          for (int64_t i = k / 32 * 32; i < k / 32 * 32 + 32; ++i) {
            largest = std::max(largest, std::fabs(x[static_cast<size_t>(i)]));
          }
          sum += v * static_cast<double>(x[static_cast<size_t>(k)]);
          // Half a step of 1/127, and below 2^-113 everything counts as zero.
          rounding += std::fabs(v) *
                      (static_cast<double>(largest) * (0.5 / 127 + 8 * test::kUnit) + 0x1p-113);
        }
        expected.push_back(sum);
        bound.push_back(rounding);
      }
      const auto c = compare<float>(y, expected, bound);
      EXPECT_TRUE(c.pass) << name(isa) << " " << value << ": " << c.text;
    }
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x(96, 1.0f), y(20, 0.0f);
      x[40] = bad;
      const GemmPart part{
          .weight = &packed.matrix, .rows = 20, .output = {.y = y.data(), .stride = 20}};
      run_gemm(cpu_kernels(isa), {.x = x.data(), .stride = 96, .rows = 1, .columns = 96},
               InputPrecision::kInt8, {&part, 1}, 1);
      for (const float v : y) EXPECT_FALSE(std::isfinite(v)) << name(isa);
    }
  }
}

TEST(CpuGemm, RowsArePartsOfOneMatrix) {
  Random random(9);
  const int64_t k = 64, m = 9;
  const RandomMatrix w(random, DType::kQ4_0, 75, k), v(random, DType::kF32, 40, k);
  const Packed pw(w, false), pv(v, false);
  const std::vector<float> x = random.normals(m * k);
  const Expected ew = plain_product(x, w, m), ev = plain_product(x, v, m);
  for (const Isa isa : available_isas()) {
    for (const int workers : {1, 2, 3}) {
      std::vector<float> y(static_cast<size_t>(m * 100), 0.0f);
      // Odd starts: rows 0..21, 21..75 of one matrix, 3..40 of another.
      const GemmPart parts[] = {{.weight = &pw.matrix,
                                 .row_begin = 0,
                                 .rows = 21,
                                 .output = {.y = y.data(), .stride = 100}},
                                {.weight = &pw.matrix,
                                 .row_begin = 21,
                                 .rows = 40,
                                 .output = {.y = y.data() + 21, .stride = 100}},
                                {.weight = &pv.matrix,
                                 .row_begin = 3,
                                 .rows = 37,
                                 .output = {.y = y.data() + 61, .stride = 100}}};
      run_gemm(cpu_kernels(isa), {.x = x.data(), .stride = k, .rows = m, .columns = k},
               InputPrecision::kF32, parts, workers);
      for (int64_t r = 0; r < m; ++r) {
        for (int64_t n = 0; n < 98; ++n) {
          const bool first = n < 61;
          const auto at = static_cast<size_t>(first ? r * 75 + n : r * 40 + n - 61 + 3);
          const Expected& e = first ? ew : ev;
          const double diff =
              std::fabs(static_cast<double>(y[static_cast<size_t>(r * 100 + n)]) - e.y[at]);
          ASSERT_TRUE(diff <= e.bound[at]) << name(isa) << " row " << r << " column " << n;
        }
        EXPECT_EQ(y[static_cast<size_t>(r * 100 + 98)], 0.0f) << "written beyond the part";
      }
    }
  }
}

}  // namespace
}  // namespace mainstem::kernels
