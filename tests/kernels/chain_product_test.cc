// Products of chains: in double against plain loops with derived bounds, in float against the very
// chain that an order promises, bit for bit.

#include "kernels/chain_product.h"

#include <gtest/gtest.h>

#include "kernels/cpu_test_util.h"
#include "kernels/reference/reference.h"

namespace mainstem::kernels {
namespace {

using test::compare;
using test::Random;
using test::RandomMatrix;
using test::widen;

constexpr double kDoubleUnit = 0x1p-53;

template <typename T>
struct ProductRun {
  Isa isa;
  const std::vector<double>& x;
  const RandomMatrix& w;
  int64_t rows;
  const ChainOrder& order;
  std::function<void(std::span<T>)> round_run = {};
  std::function<void(std::span<double>)> round_row = {};
};

template <typename T>
std::vector<T> run_product(const ProductRun<T>& run, int workers) {
  const int64_t k = run.w.view.columns(), n = run.w.view.rows();
  const AlignedBuffer packed(chain_input_bytes<T>(run.rows, run.order));
  const size_t each = (chain_scratch_bytes<T>(k, run.order) + 63) / 64 * 64;
  const AlignedBuffer scratch(each * static_cast<size_t>(workers));
  std::vector<T> y(static_cast<size_t>(run.rows * n), T(-1e30));
  ThreadPool::shared().run(workers, [&](const Worker& worker) {
    pack_chain_input<T>(run.isa,
                        {.x = run.x.data(),
                         .rows = run.rows,
                         .columns = k,
                         .order = &run.order,
                         .round_row = run.round_row},
                        packed.data(), worker);
    worker.sync();
    const ChainProduct<T> product{
        .rows = run.rows,
        .columns = k,
        .outputs = n,
        .order = &run.order,
        .packed = packed.data(),
        .weight = [&](int64_t row, T* out) { read_row(run.w.view, row, out); },
        .round_run = run.round_run,
        .finish =
            [&](int64_t m, int64_t first, std::span<const T> sums) {
              std::copy(sums.begin(), sums.end(), y.begin() + (m * n + first));
            },
        .scratch = scratch.data() + each * static_cast<size_t>(worker.index)};
    chain_product<T>(run.isa, product, worker);
  });
  return y;
}

std::vector<double> random_doubles(Random& random, int64_t count) {
  std::vector<double> x(static_cast<size_t>(count));
  // All 53 bits in use: a kernel that passes through float32 shows.
  for (double& v : x) v = static_cast<double>(random.normal()) * (1 + 0x1p-40 * random.normal());
  return x;
}

struct Expected {
  std::vector<double> y, bound;
};
/// The plain loops, and how far two sums of the same products in double can be apart.
Expected plain_product(const std::vector<double>& x, const RandomMatrix& w, int64_t rows) {
  const int64_t k = w.view.columns(), n = w.view.rows();
  Expected e;
  e.y.resize(static_cast<size_t>(rows * n));
  std::vector<double> row(static_cast<size_t>(k));
  reference::linear<double>(
      x.data(), rows, k, [&](int64_t r, double* out) { read_row(w.view, r, out); }, n, nullptr,
      e.y.data(), row.data(), Worker::alone());
  const double terms = static_cast<double>(k) + 1;
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t j = 0; j < n; ++j) {
      double magnitude = 0;
      for (int64_t c = 0; c < k; ++c) {
        magnitude +=
            std::fabs(x[static_cast<size_t>(m * k + c)] * w.values[static_cast<size_t>(j * k + c)]);
      }
      e.bound.push_back(2 * terms * kDoubleUnit / (1 - terms * kDoubleUnit) * magnitude);
    }
  }
  return e;
}

void check_grid(DType dtype, const std::vector<int64_t>& row_counts,
                const std::vector<int64_t>& output_counts,
                const std::vector<int64_t>& column_counts) {
  Random random(17);
  for (const int64_t k : column_counts) {
    if (k % info(dtype).block_elements != 0) continue;
    const ChainOrder order = double_chain_order(k);
    for (const int64_t n : output_counts) {
      const RandomMatrix w(random, dtype, n, k);
      const std::vector<double> x = random_doubles(random, row_counts.back() * k);
      const Expected all = plain_product(x, w, row_counts.back());
      for (const Isa isa : available_isas()) {
        std::vector<double> first_row;
        for (const int64_t m : row_counts) {
          const std::string what = std::string(name(dtype)) + " " + std::string(name(isa)) + " M" +
                                   std::to_string(m) + " N" + std::to_string(n) + " K" +
                                   std::to_string(k);
          const ProductRun<double> run{isa, x, w, m, order};
          const std::vector<double> y = run_product(run, 1);
          const auto result = compare<double>(y, std::span(all.y).first(y.size()),
                                              std::span(all.bound).first(y.size()));
          ASSERT_TRUE(result.pass) << what << ": " << result.text;
          if (m == row_counts.front() || m == row_counts.back()) {
            ASSERT_EQ(run_product(run, 3), y) << "bits depend on workers: " << what;
          }
          if (first_row.empty()) first_row.assign(y.begin(), y.begin() + n);
          ASSERT_TRUE(std::equal(first_row.begin(), first_row.end(), y.begin()))
              << "bits of a row depend on the other rows: " << what;
        }
      }
    }
  }
}

class ChainProductTypes : public testing::TestWithParam<DType> {};

TEST_P(ChainProductTypes, DoubleOverOddSizes) {
  check_grid(GetParam(), {1, 2, 3, 5, 11, 12, 13, 29}, {1, 15, 16, 17, 33, 80},
             {1, 7, 127, 128, 129, 160, 256});
}

TEST_P(ChainProductTypes, DoubleOverManyRowsAndLongSums) {
  check_grid(GetParam(), {1, 241, 493}, {70}, {96, 257, 768});
  check_grid(GetParam(), {1, 3}, {19}, {1025, 4096, 9000, 33000, 34048});
}

INSTANTIATE_TEST_SUITE_P(All, ChainProductTypes,
                         testing::Values(DType::kF64, DType::kF32, DType::kBF16, DType::kQ4_1,
                                         DType::kQ6_K),
                         [](const testing::TestParamInfo<DType>& p) {
                           return std::string(name(p.param));
                         });

/// What one element of a float product must be: its runs one after the other, each a chain.
float stated_sum(const std::vector<std::vector<int64_t>>& runs, const double* x, const double* w,
                 bool fused, const std::function<float(float)>& round) {
  float sum = 0;
  for (const std::vector<int64_t>& run : runs) {
    float chain = 0;
    for (const int64_t k : run) {
      const auto a = static_cast<float>(x[k]), b = static_cast<float>(w[k]);
      chain = fused ? std::fma(a, b, chain) : chain + a * b;
    }
    sum += round ? round(chain) : chain;
  }
  return sum;
}

std::vector<std::vector<int64_t>> runs_of(SumOrder order, int64_t count) {
  std::vector<std::vector<int64_t>> runs;
  const auto neighbours = [&](int64_t begin, int64_t end) {
    runs.emplace_back();
    for (int64_t k = begin; k < end; ++k) runs.back().push_back(k);
  };
  switch (order) {
    case SumOrder::kForward:
      neighbours(0, count);
      break;
    case SumOrder::kBackward:
      neighbours(0, count);
      std::reverse(runs[0].begin(), runs[0].end());
      break;
    case SumOrder::kLanes:
      for (int64_t lane = 0; lane < 16; ++lane) {
        runs.emplace_back();
        for (int64_t k = lane; k < count; k += 16) runs.back().push_back(k);
      }
      break;
    case SumOrder::kBlocks:
      for (int64_t k = 0; k < count; k += 64) neighbours(k, std::min(count, k + 64));
      break;
    case SumOrder::kHalves:
      neighbours(0, (count + 1) / 2);
      neighbours((count + 1) / 2, count);
      break;
  }
  return runs;
}

TEST(ChainProduct, FloatSumsAreThoseThatTheOrderStates) {
  Random random(23);
  const auto to_bf16 = [](float v) { return bf16_to_f32(f32_to_bf16(v)); };
  for (const int64_t k : {1, 2, 16, 17, 63, 64, 65, 130, 577}) {
    const RandomMatrix w(random, DType::kF32, 37, k);
    const std::vector<double> x = widen(random.normals(14 * k));
    for (const SumOrder kind : {SumOrder::kForward, SumOrder::kBackward, SumOrder::kLanes,
                                SumOrder::kBlocks, SumOrder::kHalves}) {
      const ChainOrder order = chain_order(kind, k);
      const auto runs = runs_of(kind, k);
      for (const Isa isa : available_isas()) {
        for (const bool rounds : {false, true}) {
          ProductRun<float> run{isa, x, w, 14, order};
          if (rounds) {
            run.round_run = [&](std::span<float> sums) {
              std::transform(sums.begin(), sums.end(), sums.begin(), to_bf16);
            };
          }
          const std::vector<float> y = run_product(run, 2);
          std::vector<float> want;
          for (int64_t m = 0; m < 14; ++m) {
            for (int64_t n = 0; n < 37; ++n) {
              want.push_back(stated_sum(runs, x.data() + m * k, w.values.data() + n * k,
                                        isa != Isa::kPortable,
                                        rounds ? to_bf16 : std::function<float(float)>()));
            }
          }
          ASSERT_EQ(y, want) << "order " << static_cast<int>(kind) << " K" << k << " " << name(isa)
                             << (rounds ? " rounded" : "");
        }
      }
    }
  }
}

TEST(ChainProduct, RowsAreRoundedBeforeTheyArePacked) {
  Random random(37);
  const RandomMatrix w(random, DType::kF32, 20, 70);
  const std::vector<double> x = widen(random.normals(15 * 70));
  std::vector<double> rounded = x;
  const auto round = [](std::span<double> row) {
    EXPECT_EQ(row.size(), 70u);
    for (double& v : row) v = std::nearbyint(v * 8) / 8;
  };
  for (size_t m = 0; m < 15; ++m) round(std::span(rounded).subspan(m * 70, 70));
  const ChainOrder order = chain_order(SumOrder::kLanes, 70);
  for (const Isa isa : available_isas()) {
    const auto want = run_product(ProductRun<float>{isa, rounded, w, 15, order}, 1);
    EXPECT_EQ(run_product(ProductRun<float>{isa, x, w, 15, order, {}, round}, 2), want);
    EXPECT_NE(run_product(ProductRun<float>{isa, x, w, 15, order}, 2), want);
  }
}

TEST(ChainProduct, OrderedSumsOfNumbersTakeTheSameOrder) {
  Random random(29);
  for (const int64_t count : {1, 2, 16, 40, 64, 65, 200}) {
    const std::vector<float> x = random.normals(count);
    for (const SumOrder kind : {SumOrder::kForward, SumOrder::kBackward, SumOrder::kLanes,
                                SumOrder::kBlocks, SumOrder::kHalves}) {
      float want = 0;
      for (const auto& run : runs_of(kind, count)) {
        float chain = 0;
        for (const int64_t i : run) chain += x[static_cast<size_t>(i)];
        want += chain;
      }
      const auto got =
          ordered_sum<float>(kind, count, [&](int64_t i) { return x[static_cast<size_t>(i)]; });
      EXPECT_EQ(got, want) << static_cast<int>(kind) << " " << count;
    }
  }
}

TEST(ChainProduct, WhatIsNotFiniteShows) {
  Random random(31);
  const RandomMatrix w(random, DType::kF32, 20, 200);
  const ChainOrder order = double_chain_order(200);
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    std::vector<double> x = random_doubles(random, 3 * 200);
    x[250] = bad;
    for (const Isa isa : available_isas()) {
      const std::vector<double> y = run_product(ProductRun<double>{isa, x, w, 3, order}, 1);
      for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i / 20 != 1) << i;
    }
  }
}

}  // namespace
}  // namespace mainstem::kernels
