// Prints the largest errors of the kernels of every level against plain double loops.
// For functions: in units in the last place of the result. For sums: in rounding units times the
// sum of the absolute terms.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "kernels/chain_product.h"
#include "kernels/cpu_kernels.h"

namespace mainstem::kernels {
namespace {

constexpr double kUnit = 0x1p-24;

std::mt19937 engine;

std::vector<float> normals(int64_t count, float scale = 1) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = scale * normal(engine);
  return x;
}

double ulp_error(float got, double expected) {
  const double size =
      std::max(std::fabs(expected), static_cast<double>(std::numeric_limits<float>::min()));
  const double ulp = std::ldexp(1.0, std::ilogb(size) - 23);
  return std::fabs(static_cast<double>(got) - expected) / ulp;
}

struct Curve {
  const char* name;
  Activation kind;
  std::function<double(double)> formula;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double curve_error(const CpuKernels& k, const Curve& curve, float lo, float hi) {
  std::vector<float> x;
  for (int i = 0; i <= 200000; ++i) x.push_back(lo + (hi - lo) * static_cast<float>(i) / 200000.0f);
  std::vector<float> y(x.size());
  k.activation(curve.kind, x.data(), y.data(), static_cast<int64_t>(x.size()), Worker::alone());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, ulp_error(y[i], curve.formula(static_cast<double>(x[i]))));
  }
  return worst;
}

double product_error(const CpuKernels& kernels, DType dtype, InputPrecision precision, int64_t k) {
  const int64_t m = 7, n = 48;
  const DTypeInfo& type = info(dtype);
  AlignedBuffer bytes(static_cast<size_t>(n * k / type.block_elements * type.block_bytes), true);
  if (dtype == DType::kF32) {
    const std::vector<float> w = normals(n * k);
    std::memcpy(bytes.data(), w.data(), bytes.size());
  } else {
    for (size_t i = 0; i < bytes.size(); ++i) bytes.data()[i] = static_cast<std::byte>(engine());
    for (size_t b = 0; b < bytes.size(); b += static_cast<size_t>(type.block_bytes)) {
      const uint16_t d = f32_to_f16(0.01f + 0.01f * static_cast<float>(engine() % 7));
      std::memcpy(bytes.data() + b, &d, 2);
      if (dtype == DType::kQ4_1) std::memcpy(bytes.data() + b + 2, &d, 2);
    }
  }
  const TensorView view(dtype, {n, k}, bytes.data());
  const PackFormat format = pack_format_for(dtype);
  AlignedBuffer packed(packed_bytes(format, n, k));
  const WeightMatrix w = pack_weights(view, format, {}, packed.data(), Worker::alone());
  const std::vector<float> x = normals(m * k);
  std::vector<float> y(static_cast<size_t>(m * n));
  AlignedBuffer input(kernels.packed_input_bytes(m, k, precision));
  AlignedBuffer scratch(kernels.gemm_scratch_bytes(m, k));
  kernels.pack_input({.x = x.data(), .stride = k, .rows = m, .columns = k}, precision, input.data(),
                     Worker::alone());
  const GemmPart part{.weight = &w, .rows = n, .output = {.y = y.data(), .stride = n}};
  kernels.gemm(input.data(), m, k, precision, {&part, 1}, scratch.data(), Worker::alone());
  double worst = 0;
  std::vector<double> row(static_cast<size_t>(k));
  for (int64_t j = 0; j < n; ++j) {
    read_row(view, j, row.data());
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0, magnitude = 0;
      for (int64_t c = 0; c < k; ++c) {
        const double t =
            static_cast<double>(x[static_cast<size_t>(i * k + c)]) * row[static_cast<size_t>(c)];
        sum += t;
        magnitude += std::fabs(t);
      }
      const double diff = std::fabs(static_cast<double>(y[static_cast<size_t>(i * n + j)]) - sum);
      worst =
          std::max(worst, diff / (magnitude * (precision == InputPrecision::kInt8 ? 1 : kUnit)));
    }
  }
  return worst;
}

/// Against sums in long double, which has eleven bits more where it matters.
double double_product_error(const CpuKernels& kernels, int64_t k) {
  const int64_t m = 7, n = 48;
  std::vector<double> x, w, y(static_cast<size_t>(m * n));
  for (const float v : normals(m * k)) x.push_back(static_cast<double>(v) * (1 + 0x1p-40));
  for (const float v : normals(n * k)) w.push_back(static_cast<double>(v) * (1 + 0x1p-41));
  const ChainOrder order = double_chain_order(k);
  const AlignedBuffer packed(chain_input_bytes<double>(m, order));
  const AlignedBuffer scratch(chain_scratch_bytes<double>(k, order));
  pack_chain_input<double>(kernels.isa, {.x = x.data(), .rows = m, .columns = k, .order = &order},
                           packed.data(), Worker::alone());
  const ChainProduct<double> product{
      .rows = m,
      .columns = k,
      .outputs = n,
      .order = &order,
      .packed = packed.data(),
      .weight = [&](int64_t row, double* out) { std::copy_n(w.data() + row * k, k, out); },
      .finish =
          [&](int64_t row, int64_t first, std::span<const double> sums) {
            std::copy(sums.begin(), sums.end(), y.begin() + (row * n + first));
          },
      .scratch = scratch.data()};
  chain_product<double>(kernels.isa, product, Worker::alone());
  double worst = 0;
  for (int64_t i = 0; i < m * n; ++i) {
    long double sum = 0, magnitude = 0;
    for (int64_t c = 0; c < k; ++c) {
      const long double t = static_cast<long double>(x[static_cast<size_t>(i / n * k + c)]) *
                            static_cast<long double>(w[static_cast<size_t>(i % n * k + c)]);
      sum += t;
      magnitude += std::fabs(t);
    }
    const long double diff = std::fabs(static_cast<long double>(y[static_cast<size_t>(i)]) - sum);
    worst = std::max(worst, static_cast<double>(diff / (magnitude * 0x1p-53L)));
  }
  return worst;
}

double softmax_error(const CpuKernels& k) {
  const std::vector<float> x = normals(1000, 4);
  std::vector<float> y(x.size());
  k.softmax(x.data(), y.data(), 1, 1000, Worker::alone());
  double top = -1e300, sum = 0, worst = 0;
  for (const float v : x) top = std::max(top, static_cast<double>(v));
  for (const float v : x) sum += std::exp(static_cast<double>(v) - top);
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, ulp_error(y[i], std::exp(static_cast<double>(x[i]) - top) / sum));
  }
  return worst;
}

double norm_error(const CpuKernels& k, bool layer_norm) {
  const std::vector<float> x = normals(4096, 3);
  std::vector<float> y(x.size());
  const NormPrologue norm{.layer_norm = layer_norm, .eps = 1e-5f};
  k.norm({.x = x.data(), .stride = 4096, .rows = 1, .columns = 4096, .norm = &norm}, y.data(), 4096,
         Worker::alone());
  double mean = 0, square = 0, worst = 0;
  for (const float v : x) mean += layer_norm ? static_cast<double>(v) / 4096 : 0;
  for (const float v : x)
    square += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean) / 4096;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected =
        (static_cast<double>(x[i]) - mean) / std::sqrt(square + static_cast<double>(norm.eps));
    // Near the mean the difference cancels: measured against the typical size 1 there.
    const double size = std::max(std::fabs(expected), layer_norm ? 1.0 : 0.0);
    worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - expected) / (2 * kUnit * size));
  }
  return worst;
}

double attention_error(const CpuKernels& k, int64_t keys) {
  const int64_t e = 64;
  const int64_t blocks = (keys + kKeyBlock - 1) / kKeyBlock;
  const std::vector<float> q = normals(e), ks = normals(blocks * 16 * e),
                           vs = normals(blocks * 16 * e);
  std::vector<float> y(static_cast<size_t>(e));
  const AttentionSequence sequence{0, 1, ks.data(), vs.data()};
  const KeyRange range{0, keys};
  AttentionArgs args{.heads = 1,
                     .kv_heads = 1,
                     .head_width = e,
                     .scale = 0.125f,
                     .sequences = {&sequence, 1},
                     .ranges = &range,
                     .q = q.data(),
                     .q_stride = e,
                     .out = y.data(),
                     .out_stride = e};
  AlignedBuffer scratch(k.attention_scratch_bytes(args, 1));
  args.scratch = scratch.data();
  k.attention(args, Worker::alone());
  std::vector<double> score;
  double top = -1e300, sum = 0, worst = 0;
  for (int64_t s = 0; s < keys; ++s) {
    double dot = 0;
    for (int64_t c = 0; c < e; ++c) {
      dot += static_cast<double>(q[static_cast<size_t>(c)]) *
             static_cast<double>(ks[static_cast<size_t>(s / 16 * 16 * e + c * 16 + s % 16)]);
    }
    score.push_back(dot * 0.125);
    top = std::max(top, score.back());
  }
  for (const double s : score) sum += std::exp(s - top);
  for (int64_t c = 0; c < e; ++c) {
    double value = 0, magnitude = 0;
    for (int64_t s = 0; s < keys; ++s) {
      const double t = std::exp(score[static_cast<size_t>(s)] - top) / sum *
                       static_cast<double>(vs[static_cast<size_t>(s * e + c)]);
      value += t;
      magnitude += std::fabs(t);
    }
    worst = std::max(worst, std::fabs(static_cast<double>(y[static_cast<size_t>(c)]) - value) /
                                (magnitude * kUnit));
  }
  return worst;
}

using Measure = std::function<double(const CpuKernels&)>;

void print_row(const std::string& what, const std::string& unit, const Measure& measure) {
  std::printf("| %s | %s |", what.c_str(), unit.c_str());
  for (const Isa isa : available_isas()) {
    engine.seed(4);
    std::printf(" %.3g |", measure(cpu_kernels(isa)));
  }
  std::printf("\n");
}

void print_table() {
  std::printf("| kernel | unit |");
  for (const Isa isa : available_isas()) std::printf(" %s |", std::string(name(isa)).c_str());
  std::printf("\n| --- | --- |");
  for (size_t i = 0; i < available_isas().size(); ++i) std::printf(" --- |");
  std::printf("\n");
  const double c = std::sqrt(2 / std::numbers::pi);
  const Curve curves[] = {
      {"gelu erf", Activation::kGeluErf,
       [](double x) { return x / 2 * std::erfc(-x / std::numbers::sqrt2); }},
      {"gelu tanh", Activation::kGeluTanh,
       [c](double x) { return x * sigmoid(2 * c * (x + 0.044715 * x * x * x)); }},
      {"silu", Activation::kSilu, [](double x) { return x * sigmoid(x); }},
      {"quick gelu", Activation::kQuickGelu, [](double x) { return x * sigmoid(1.702 * x); }}};
  for (const Curve& curve : curves) {
    for (const auto& [lo, hi] : {std::pair{-1.0f, 8.0f}, std::pair{-12.0f, -1.0f}}) {
      print_row(std::string(curve.name) + " on [" + std::to_string(static_cast<int>(lo)) + ", " +
                    std::to_string(static_cast<int>(hi)) + "]",
                "ulp",
                [&, l = lo, h = hi](const CpuKernels& k) { return curve_error(k, curve, l, h); });
    }
  }
  print_row("softmax of 1000", "ulp", softmax_error);
  print_row("RMS norm of 4096", "ulp", [](const CpuKernels& k) { return norm_error(k, false); });
  print_row("layer norm of 4096", "2^-23", [](const CpuKernels& k) { return norm_error(k, true); });
  for (const int64_t k : {64, 576, 4096}) {
    print_row("product f32, K = " + std::to_string(k), "2^-24 sum|xw|", [k](const CpuKernels& t) {
      return product_error(t, DType::kF32, InputPrecision::kF32, k);
    });
  }
  for (const int64_t k : {64, 576, 4096}) {
    print_row("product f64, K = " + std::to_string(k), "2^-53 sum|xw|",
              [k](const CpuKernels& t) { return double_product_error(t, k); });
  }
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    print_row("product " + std::string(name(dtype)) + ", float32 inputs, K = 576", "2^-24 sum|xw|",
              [dtype](const CpuKernels& t) {
                return product_error(t, dtype, InputPrecision::kF32, 576);
              });
    print_row("product " + std::string(name(dtype)) + ", 8-bit inputs, K = 576", "sum|xw|",
              [dtype](const CpuKernels& t) {
                return product_error(t, dtype, InputPrecision::kInt8, 576);
              });
  }
  for (const int64_t keys : {64, 2048}) {
    print_row("attention over " + std::to_string(keys) + " keys", "2^-24 sum|pv|",
              [keys](const CpuKernels& k) { return attention_error(k, keys); });
  }
}

}  // namespace
}  // namespace mainstem::kernels

int main() {
  mainstem::kernels::print_table();
  return 0;
}
