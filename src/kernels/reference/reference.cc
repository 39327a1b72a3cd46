#include "kernels/reference/reference.h"

#include <algorithm>
#include <cmath>

namespace mainstem::reference {
namespace {

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

template <typename T>
void norm_group(const T* x, int64_t n, const NormArgs& args, const T* weight, const T* bias, T* y) {
  double mean = 0;
  if (args.layer_norm) {
    for (int64_t i = 0; i < n; ++i) mean += static_cast<double>(x[i]);
    mean /= static_cast<double>(n);
  }
  double square = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double centred = static_cast<double>(x[i]) - mean;
    square += centred * centred;
  }
  const double divisor = std::sqrt(square / static_cast<double>(n) + args.eps);
  for (int64_t i = 0; i < n; ++i) {
    double value = (static_cast<double>(x[i]) - mean) / divisor;
    if (weight != nullptr) value *= args.weight_offset + static_cast<double>(weight[i]);
    if (bias != nullptr) value += static_cast<double>(bias[i]);
    y[i] = static_cast<T>(value);
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

template <typename T>
void norm(const T* x, int64_t rows, int64_t columns, const NormArgs& args, const T* weight,
          const T* bias, T* y, const Worker& worker) {
  const auto [begin, end] = worker.slice(rows);
  for (int64_t m = begin; m < end; ++m) {
    for (int64_t c = 0; c < columns; c += args.group) {
      const int64_t w = args.weight_per_group ? c : 0;
      norm_group(x + m * columns + c, args.group, args, weight != nullptr ? weight + w : nullptr,
                 bias != nullptr ? bias + w : nullptr, y + m * columns + c);
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

template <typename T>
void activation(Activation kind, const T* x, T* y, int64_t count, const Worker& worker) {
  const auto [begin, end] = worker.slice(count, 64);
  for (int64_t i = begin; i < end; ++i) {
    y[i] = static_cast<T>(activate(kind, static_cast<double>(x[i])));
  }
}

template <typename T>
void rotary(const T* cosine, const T* sine, int64_t width, bool interleaved, int64_t rows,
            int64_t heads, int64_t head_width, const T* x, T* y, const Worker& worker) {
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
        y[first] = a * c[j] - b * s[j];
        y[second] = b * c[j] + a * s[j];
      }
      for (int64_t e = width; e < head_width; ++e) y[at + e] = x[at + e];
    }
  }
}

template <typename T>
void attention(const AttentionArgs& args, std::span<const AttentionSequence<T>> sequences,
               const int64_t* begin, const int64_t* end, const T* q, T* out, double* buffer,
               const Worker& worker) {
  const KeyLayout layout{args.kv_heads, args.head_width};
  const int64_t width = args.head_width;
  const int64_t group = args.heads / args.kv_heads;
  for (const AttentionSequence<T>& sequence : sequences) {
    const auto [first, last] = worker.slice(sequence.rows * args.heads);
    for (int64_t job = first; job < last; ++job) {
      if (args.cancel != nullptr && args.cancel->load(std::memory_order_relaxed)) return;
      const int64_t row = job / args.heads;
      const int64_t h = job % args.heads;
      const int64_t m = sequence.row_begin + row;
      const int64_t g = args.modulo_kv_map ? h % args.kv_heads : h / group;
      const T* query = q + (m * args.heads + h) * width;
      T* mix = out + (m * args.heads + h) * width;

      const auto score = [&](int64_t s) {
        double sum = 0;
        for (int64_t e = 0; e < width; ++e) {
          sum += static_cast<double>(query[e]) *
                 static_cast<double>(sequence.keys[layout.key(s, g, e)]);
        }
        sum *= args.scale;
        if (args.soft_cap != 0) sum = args.soft_cap * std::tanh(sum / args.soft_cap);
        if (!args.alibi_slopes.empty()) {
          sum += args.alibi_slopes[static_cast<size_t>(h)] * static_cast<double>(s);
        }
        return sum;
      };

      const int64_t from = begin[m];
      const int64_t to = end[m];
      // Scores are shown for all keys, also for those the mask will hide.
      const int64_t all = sequence.scores != nullptr ? sequence.key_count : to;
      for (int64_t s = sequence.scores != nullptr ? 0 : from; s < all; ++s) buffer[s] = score(s);
      const int64_t square = (h * sequence.rows + row) * sequence.key_count;
      if (sequence.scores != nullptr) {
        for (int64_t s = 0; s < all; ++s) sequence.scores[square + s] = static_cast<T>(buffer[s]);
      }

      double maximum = -INFINITY;
      for (int64_t s = from; s < to; ++s) {
        maximum = std::isnan(buffer[s]) ? buffer[s] : std::max(maximum, buffer[s]);
        if (std::isnan(maximum)) break;
      }
      double total = 0;
      for (int64_t s = from; s < to; ++s) {
        buffer[s] = std::exp(buffer[s] - maximum);
        total += buffer[s];
      }
      for (int64_t s = from; s < to; ++s) buffer[s] /= total;
      if (sequence.pattern != nullptr) {
        for (int64_t s = 0; s < sequence.key_count; ++s) {
          sequence.pattern[square + s] =
              s >= from && s < to ? static_cast<T>(buffer[s]) : static_cast<T>(0);
        }
      }
      for (int64_t e = 0; e < width; ++e) {
        double sum = 0;
        for (int64_t s = from; s < to; ++s) {
          sum += buffer[s] * static_cast<double>(sequence.values[layout.value(s, g, e)]);
        }
        mix[e] = static_cast<T>(sum);
      }
    }
  }
}

#define MAINSTEM_INSTANTIATE(T)                                                                   \
  template void linear<T>(const T*, int64_t, int64_t, const RowReader<T>&, int64_t, const T*, T*, \
                          T*, const Worker&);                                                     \
  template void norm<T>(const T*, int64_t, int64_t, const NormArgs&, const T*, const T*, T*,      \
                        const Worker&);                                                           \
  template void activation<T>(Activation, const T*, T*, int64_t, const Worker&);                  \
  template void rotary<T>(const T*, const T*, int64_t, bool, int64_t, int64_t, int64_t, const T*, \
                          T*, const Worker&);                                                     \
  template void attention<T>(const AttentionArgs&, std::span<const AttentionSequence<T>>,         \
                             const int64_t*, const int64_t*, const T*, T*, double*,               \
                             const Worker&);
MAINSTEM_INSTANTIATE(float)
MAINSTEM_INSTANTIATE(double)
#undef MAINSTEM_INSTANTIATE

}  // namespace mainstem::reference
