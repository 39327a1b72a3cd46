#include "kernels/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace mainstem::reference {
namespace {

constexpr int64_t kElementUnit = 64;  // elements of one cache line or more per worker

// Sixteen partial sums in a fixed order: the compiler can use vector registers without being
// allowed to change the result.
template <typename T>
double dot(const T* a, const T* b, int64_t n) {
  double partial[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int64_t j = 0; j < 16; ++j) {
      partial[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
    }
  }
  for (int64_t j = 0; i < n; ++i, ++j) {
    partial[j] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  double sum = 0;
  for (double value : partial) sum += value;
  return sum;
}

template <typename T, typename A>
void norm_group(const T* x, int64_t n, const NormArgs& args, const T* weight, const T* bias, T* y,
                const A& a) {
  using Number = typename A::Number;
  const auto at = [&](int64_t i) { return static_cast<Number>(x[i]); };
  const auto count = static_cast<Number>(n);
  Number mean = 0;
  if (args.layer_norm) mean = a.sum(n, at) / count;
  Number variance = 0;
  if (a.one_pass_variance()) {
    const Number square = a.sum(n, [&](int64_t i) { return at(i) * at(i); }) / count;
    variance = std::max<Number>(square - mean * mean, 0);
  } else {
    variance = a.sum(n, [&](int64_t i) { return (at(i) - mean) * (at(i) - mean); }) / count;
  }
  const Number divisor = std::sqrt(variance + static_cast<Number>(args.eps));
  for (int64_t i = 0; i < n; ++i) {
    Number value = a.normed(at(i), mean, divisor);
    if (weight != nullptr) {
      value = a.before_weight(value) *
              (static_cast<Number>(args.weight_offset) + a.weight(static_cast<double>(weight[i])));
    }
    if (bias != nullptr) value += a.weight(static_cast<double>(bias[i]));
    y[i] = static_cast<T>(a.store(value));
  }
}

}  // namespace

template <typename T>
void linear(const T* x, int64_t rows, int64_t columns, const RowReader<T>& weight, int64_t outputs,
            const T* bias, T* y, T* row_buffer, const Worker& worker) {
  const auto [begin, end] = worker.slice(outputs);
  for (int64_t n = begin; n < end; ++n) {
    weight(n, row_buffer);
    const double offset = bias != nullptr ? static_cast<double>(bias[n]) : 0.0;
    for (int64_t m = 0; m < rows; ++m) {
      y[m * outputs + n] = static_cast<T>(dot(x + m * columns, row_buffer, columns) + offset);
    }
  }
}

template <typename T, typename A>
void norm(const T* x, int64_t rows, int64_t columns, const NormArgs& args, const T* weight,
          const T* bias, T* y, const Worker& worker, const A& arithmetic) {
  const auto [begin, end] = worker.slice(rows);
  for (int64_t m = begin; m < end; ++m) {
    for (int64_t c = 0; c < columns; c += args.group) {
      const int64_t w = args.weight_per_group ? c : 0;
      norm_group(x + m * columns + c, args.group, args, weight != nullptr ? weight + w : nullptr,
                 bias != nullptr ? bias + w : nullptr, y + m * columns + c, arithmetic);
    }
  }
}

double activate(Activation kind, double x) {
  switch (kind) {
    case Activation::kRelu:
      return x > 0 ? x : x * 0.0;
    case Activation::kReluSquared:
      return x > 0 ? x * x : x * 0.0;
    case Activation::kGeluErf:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh: {
      const double inner = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1.0 + std::tanh(inner));
    }
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kQuickGelu:
      return x / (1.0 + std::exp(-1.702 * x));
  }
  return x;
}

template <typename T, typename A>
void activation(Activation kind, const T* x, T* y, int64_t count, const Worker& worker,
                const A& arithmetic) {
  using Number = typename A::Number;
  const auto [begin, end] = worker.slice(count, kElementUnit);
  for (int64_t i = begin; i < end; ++i) {
    y[i] = static_cast<T>(arithmetic.activate(kind, static_cast<Number>(x[i])));
  }
}

template <typename T, typename A>
void scale(double factor, const T* x, T* y, int64_t count, const Worker& worker,
           const A& arithmetic) {
  const auto [begin, end] = worker.slice(count, kElementUnit);
  if constexpr (std::is_same_v<A, Exact>) {
    const T narrow = static_cast<T>(factor);
    for (int64_t i = begin; i < end; ++i) y[i] = x[i] * narrow;
  } else {
    const float narrow = arithmetic.factor(factor);
    for (int64_t i = begin; i < end; ++i)
      y[i] = arithmetic.store(static_cast<float>(x[i]) * narrow);
  }
}

template <typename T, typename A>
void soft_cap(double cap, const T* x, T* y, int64_t count, const Worker& worker,
              const A& arithmetic) {
  using Number = typename A::Number;
  const auto [begin, end] = worker.slice(count, kElementUnit);
  for (int64_t i = begin; i < end; ++i) {
    y[i] = static_cast<T>(arithmetic.store(arithmetic.soft_cap(static_cast<Number>(x[i]), cap)));
  }
}

template <typename T, typename A>
void multiply(const T* a, const T* b, T* y, int64_t count, const Worker& worker,
              const A& arithmetic) {
  const auto [begin, end] = worker.slice(count, kElementUnit);
  for (int64_t i = begin; i < end; ++i) {
    if constexpr (std::is_same_v<A, Exact>) {
      y[i] = a[i] * b[i];
    } else {
      y[i] = arithmetic.store(static_cast<float>(a[i]) * static_cast<float>(b[i]));
    }
  }
}

template <typename T, typename A>
void add(std::span<const T* const> terms, T* y, int64_t count, const Worker& worker,
         const A& arithmetic) {
  const auto [begin, end] = worker.slice(count, kElementUnit);
  if constexpr (std::is_same_v<A, Exact>) {
    std::copy(terms[0] + begin, terms[0] + end, y + begin);
    for (const T* term : terms.subspan(1)) {
      for (int64_t i = begin; i < end; ++i) y[i] += term[i];
    }
  } else {
    const auto number = static_cast<int64_t>(terms.size());
    for (int64_t i = begin; i < end; ++i) {
      y[i] = arithmetic.sum_of_terms(number, [&](int64_t term) {
        return static_cast<float>(terms[static_cast<size_t>(term)][i]);
      });
    }
  }
}

template <typename T, typename A>
void rotary(const T* cosine, const T* sine, int64_t width, bool interleaved, int64_t rows,
            int64_t heads, int64_t head_width, const T* x, T* y, const Worker& worker,
            const A& arithmetic) {
  const int64_t half = width / 2;
  const auto [begin, end] = worker.slice(rows);
  for (int64_t m = begin; m < end; ++m) {
    const T* c = cosine + m * half;
    const T* s = sine + m * half;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = (m * heads + h) * head_width;
      for (int64_t j = 0; j < half; ++j) {
        const int64_t first = at + (interleaved ? 2 * j : j);
        const int64_t second = at + (interleaved ? 2 * j + 1 : j + half);
        const T a = x[first];
        const T b = x[second];
        y[first] = static_cast<T>(arithmetic.product_difference(a, c[j], b, s[j]));
        y[second] = static_cast<T>(arithmetic.product_sum(b, c[j], a, s[j]));
      }
      for (int64_t e = width; e < head_width; ++e) y[at + e] = x[at + e];
    }
  }
}

#define MAINSTEM_INSTANTIATE(T, A)                                                              \
  template void norm<T, A>(const T*, int64_t, int64_t, const NormArgs&, const T*, const T*, T*, \
                           const Worker&, const A&);                                            \
  template void activation<T, A>(Activation, const T*, T*, int64_t, const Worker&, const A&);   \
  template void scale<T, A>(double, const T*, T*, int64_t, const Worker&, const A&);            \
  template void soft_cap<T, A>(double, const T*, T*, int64_t, const Worker&, const A&);         \
  template void multiply<T, A>(const T*, const T*, T*, int64_t, const Worker&, const A&);       \
  template void add<T, A>(std::span<const T* const>, T*, int64_t, const Worker&, const A&);     \
  template void rotary<T, A>(const T*, const T*, int64_t, bool, int64_t, int64_t, int64_t,      \
                             const T*, T*, const Worker&, const A&);
MAINSTEM_INSTANTIATE(float, Exact)
MAINSTEM_INSTANTIATE(double, Exact)
MAINSTEM_INSTANTIATE(double, Rounded)
#undef MAINSTEM_INSTANTIATE
#define MAINSTEM_INSTANTIATE(T)                                                                   \
  template void linear<T>(const T*, int64_t, int64_t, const RowReader<T>&, int64_t, const T*, T*, \
                          T*, const Worker&);
MAINSTEM_INSTANTIATE(float)
MAINSTEM_INSTANTIATE(double)
#undef MAINSTEM_INSTANTIATE

}  // namespace mainstem::reference
