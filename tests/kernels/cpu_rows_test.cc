#include <gtest/gtest.h>

#include <numbers>

#include "kernels/cpu_test_util.h"

namespace mainstem::kernels {
namespace {

using test::compare;
using test::Random;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double formula(Activation kind, double x) {
  switch (kind) {
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kReluSquared:
      return x > 0 ? x * x : 0;
    case Activation::kGeluErf:
      return x / 2 * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh: {
      const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x * sigmoid(2 * u);
    }
    case Activation::kSilu:
      return x * sigmoid(x);
    case Activation::kQuickGelu:
      return x * sigmoid(1.702 * x);
  }
  return 0;
}

/// Relative change of the result for a relative change of the argument inside: x^2 bounds the
/// slope of the exponents of all the curves (erf), the cubic that of the tanh form.
double bound(Activation kind, double x) {
  const double y = formula(kind, x);
  double exponent = 0;
  switch (kind) {
    case Activation::kRelu:
      return 0;
    case Activation::kReluSquared:
      return test::function_bound(y, 0.5);
    case Activation::kGeluErf:
      exponent = 0;
      break;
    case Activation::kGeluTanh:
      exponent = 1.6 * (std::fabs(x) + 0.045 * std::fabs(x * x * x));
      break;
    case Activation::kSilu:
      exponent = std::fabs(x);
      break;
    case Activation::kQuickGelu:
      exponent = 1.702 * std::fabs(x);
      break;
  }
  constexpr double kUnits = 5, kArgumentUnits = 2;
  // Where the exponential is denormal its one rounding is multiplied by x.
  const double vanishing = 2 * std::fabs(x) * test::kTiny;
  return test::function_bound(y, kUnits, y * exponent, kArgumentUnits) + vanishing;
}

const Activation kAll[] = {Activation::kRelu,     Activation::kReluSquared, Activation::kGeluErf,
                           Activation::kGeluTanh, Activation::kSilu,        Activation::kQuickGelu};

std::vector<float> sweep() {
  std::vector<float> x = {0.0f, -0.0f, 1e-45f, -1e-40f, 1e-20f, -1e-20f, 3e4f, -3e4f};
  for (float v = -120; v <= 120; v += 0.37f) x.push_back(v);
  for (float v = -8; v <= 8; v += 0.0031f) x.push_back(v);
  for (float v = 1e-8f; v < 1; v *= 1.3f) x.push_back(v), x.push_back(-v);
  return x;
}

TEST(CpuRows, Activations) {
  const std::vector<float> x = sweep();
  for (const Isa isa : available_isas()) {
    for (const Activation kind : kAll) {
      std::vector<double> expected, bounds;
      for (const float v : x) {
        expected.push_back(formula(kind, static_cast<double>(v)));
        bounds.push_back(bound(kind, static_cast<double>(v)));
      }
      std::vector<float> y(x.size());
      cpu_kernels(isa).activation(kind, x.data(), y.data(), static_cast<int64_t>(x.size()),
                                  Worker::alone());
      const auto c = compare<float>(y, expected, bounds);
      EXPECT_TRUE(c.pass) << name(isa) << " kind " << static_cast<int>(kind) << " x " << x[c.worst]
                          << ": " << c.text;
      for (const int workers : {2, 3}) {
        std::vector<float> z = x;  // in place
        ThreadPool::shared().run(workers, [&](const Worker& worker) {
          cpu_kernels(isa).activation(kind, z.data(), z.data(), static_cast<int64_t>(z.size()),
                                      worker);
        });
        EXPECT_EQ(0, std::memcmp(z.data(), y.data(), y.size() * sizeof(float)));
      }
    }
  }
}

TEST(CpuRows, ActivationsOfWhatIsNotFinite) {
  const std::vector<float> x = {kInf, -kInf, kNan};
  for (const Isa isa : available_isas()) {
    for (const Activation kind : kAll) {
      float y[3];
      cpu_kernels(isa).activation(kind, x.data(), y, 3, Worker::alone());
      EXPECT_EQ(y[0], kInf);
      const bool relu = kind == Activation::kRelu || kind == Activation::kReluSquared;
      // -inf * 0 in all the smooth formulas.
      EXPECT_TRUE(relu ? y[1] == 0.0f : std::isnan(y[1])) << name(isa) << static_cast<int>(kind);
      EXPECT_TRUE(std::isnan(y[2])) << name(isa) << static_cast<int>(kind);
    }
  }
}

TEST(CpuRows, ElementWise) {
  Random random(1);
  for (const Isa isa : available_isas()) {
    const CpuKernels& k = cpu_kernels(isa);
    for (const int64_t count : {0, 1, 15, 16, 17, 129, 1000}) {
      const std::vector<float> a = random.normals(count), b = random.normals(count);
      for (const int workers : {1, 2, 3}) {
        std::vector<float> sum(a.size()), product(a.size()), scaled(a.size());
        ThreadPool::shared().run(workers, [&](const Worker& worker) {
          k.add(a.data(), b.data(), sum.data(), count, worker);
          k.multiply(a.data(), b.data(), product.data(), count, worker);
          k.scale(0.3f, a.data(), scaled.data(), count, worker);
        });
        for (size_t i = 0; i < a.size(); ++i) {
          ASSERT_EQ(sum[i], a[i] + b[i]);
          ASSERT_EQ(product[i], a[i] * b[i]);
          ASSERT_EQ(scaled[i], 0.3f * a[i]);
        }
      }
    }
  }
}

struct Norm {
  std::vector<double> y, bound;
};
Norm plain_norm(const std::vector<float>& x, int64_t rows, const NormPrologue& p) {
  const auto columns = static_cast<int64_t>(x.size()) / rows;
  const auto size = static_cast<double>(columns);
  Norm r;
  for (int64_t m = 0; m < rows; ++m) {
    const float* row = x.data() + m * columns;
    double mean = 0, square = 0;
    if (p.layer_norm) {
      for (int64_t k = 0; k < columns; ++k) mean += static_cast<double>(row[k]) / size;
    }
    for (int64_t k = 0; k < columns; ++k) {
      const double d = static_cast<double>(row[k]) - mean;
      square += d * d / size;
    }
    const double factor = 1 / std::sqrt(square + static_cast<double>(p.eps));
    for (int64_t k = 0; k < columns; ++k) {
      const double w = p.weight == nullptr ? 1
                                           : static_cast<double>(p.weight_offset) +
                                                 static_cast<double>(p.weight[k]);
      const double b = p.bias == nullptr ? 0 : static_cast<double>(p.bias[k]);
      const double d = static_cast<double>(row[k]) - mean;
      r.y.push_back(d * factor * w + b);
      // The rounded mean shifts every element; the weight with its offset is a sum of two.
      const double w_parts = p.weight == nullptr ? 1
                                                 : std::fabs(static_cast<double>(p.weight_offset)) +
                                                       std::fabs(static_cast<double>(p.weight[k]));
      r.bound.push_back(test::gamma(6) * (std::fabs(d) * factor * w_parts + std::fabs(b)) +
                        test::gamma(3) * std::fabs(mean) * factor * w_parts + 4 * test::kTiny);
    }
  }
  return r;
}

TEST(CpuRows, Norms) {
  Random random(2);
  for (const Isa isa : available_isas()) {
    for (const int64_t columns : {1, 5, 16, 31, 64, 65, 200, 576}) {
      for (const int flags : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const int64_t rows = 5;
        std::vector<float> x = random.normals(rows * columns);
        for (float& v : x) v = v * 3 + 2;
        const std::vector<float> w = random.normals(columns), b = random.normals(columns);
        const NormPrologue norm{.layer_norm = (flags & 1) != 0,
                                .eps = 1e-3f,
                                .weight_offset = (flags & 4) != 0 ? 1.0f : 0.0f,
                                .weight = (flags & 2) != 0 ? w.data() : nullptr,
                                .bias = (flags & 4) != 0 ? b.data() : nullptr};
        const Norm expected = plain_norm(x, rows, norm);
        std::vector<float> first;
        for (const int workers : {1, 2, 3}) {
          std::vector<float> y = x;
          ThreadPool::shared().run(workers, [&](const Worker& worker) {
            cpu_kernels(isa).norm(
                {.x = y.data(), .stride = columns, .rows = rows, .columns = columns, .norm = &norm},
                y.data(), columns, worker);
          });
          const auto c = compare<float>(y, expected.y, expected.bound);
          ASSERT_TRUE(c.pass) << name(isa) << " K" << columns << " flags " << flags << ": "
                              << c.text;
          if (first.empty()) first = y;
          ASSERT_EQ(first, y);
        }
      }
    }
  }
}

TEST(CpuRows, Softmax) {
  Random random(3);
  for (const Isa isa : available_isas()) {
    for (const int64_t columns : {1, 2, 15, 16, 17, 100, 1000}) {
      std::vector<float> x = random.normals(3 * columns);
      for (float& v : x) v *= 5;
      if (columns > 2) x[1] = -kInf;
      std::vector<double> expected, bound;
      for (int64_t m = 0; m < 3; ++m) {
        double top = -1e300, sum = 0;
        for (int64_t i = 0; i < columns; ++i) {
          top = std::max(top, static_cast<double>(x[static_cast<size_t>(m * columns + i)]));
        }
        for (int64_t i = 0; i < columns; ++i) {
          sum += std::exp(static_cast<double>(x[static_cast<size_t>(m * columns + i)]) - top);
        }
        for (int64_t i = 0; i < columns; ++i) {
          const double d = static_cast<double>(x[static_cast<size_t>(m * columns + i)]) - top;
          const double y = std::exp(d) / sum;
          expected.push_back(y);
          const double exponent = y > 0 ? std::fabs(d) : 0;
          bound.push_back(test::function_bound(y, 4, y * exponent, 0.5) +
                          test::gamma(static_cast<double>(columns) / 16 + 20) * y);
        }
      }
      std::vector<float> y = x;
      cpu_kernels(isa).softmax(y.data(), y.data(), 3, columns, Worker::alone());
      const auto c = compare<float>(y, expected, bound);
      EXPECT_TRUE(c.pass) << name(isa) << " " << columns << ": " << c.text;
    }
    const float nothing[2] = {-kInf, -kInf}, bad[3] = {1, kNan, 2};
    float y[3];
    cpu_kernels(isa).softmax(nothing, y, 1, 2, Worker::alone());
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
    cpu_kernels(isa).softmax(bad, y, 1, 3, Worker::alone());
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[2]));
  }
}

TEST(CpuRows, Rotary) {
  Random random(4);
  for (const Isa isa : available_isas()) {
    for (const int64_t head : {1, 2, 7, 16, 18, 32, 48, 64, 80, 128}) {
      for (const bool interleaved : {false, true}) {
        for (const int64_t width : {head / 2 / 2 * 2, head / 2 * 2}) {
          const int64_t rows = 5, heads = 3, d = heads * head, pairs = width / 2;
          const std::vector<float> x = random.normals(rows * d);
          std::vector<float> cosine, sine;
          for (int64_t i = 0; i < rows * pairs; ++i) {
            const float angle = random.uniform(-4, 4);
            cosine.push_back(std::cos(angle));
            sine.push_back(std::sin(angle));
          }
          const RotaryTable table{cosine.data(), sine.data(), width, interleaved};
          std::vector<double> expected = test::widen(x), bound(x.size(), 0.0);
          for (int64_t m = 0; m < rows; ++m) {
            for (int64_t h = 0; h < heads; ++h) {
              for (int64_t j = 0; j < pairs; ++j) {
                const auto base = static_cast<size_t>(m * d + h * head);
                const size_t p = base + static_cast<size_t>(interleaved ? 2 * j : j);
                const size_t q = base + static_cast<size_t>(interleaved ? 2 * j + 1 : j + pairs);
                const auto c = static_cast<double>(cosine[static_cast<size_t>(m * pairs + j)]);
                const auto s = static_cast<double>(sine[static_cast<size_t>(m * pairs + j)]);
                const auto a = static_cast<double>(x[p]), b = static_cast<double>(x[q]);
                expected[p] = a * c - b * s;
                expected[q] = a * s + b * c;
                bound[p] = test::dot_bound(2, std::fabs(a * c) + std::fabs(b * s));
                bound[q] = test::dot_bound(2, std::fabs(a * s) + std::fabs(b * c));
              }
            }
          }
          for (const int workers : {1, 2, 3}) {
            std::vector<float> y(x.size()), z = x;
            ThreadPool::shared().run(workers, [&](const Worker& worker) {
              cpu_kernels(isa).rotary(table, rows, heads, head, x.data(), d, y.data(), d, worker);
              cpu_kernels(isa).rotary(table, rows, heads, head, z.data(), d, z.data(), d, worker);
            });
            const auto c = compare<float>(y, expected, bound);
            ASSERT_TRUE(c.pass) << name(isa) << " E" << head << " width " << width << ": "
                                << c.text;
            ASSERT_EQ(y, z);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mainstem::kernels
