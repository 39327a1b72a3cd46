// Functions of rows and of single elements.

#pragma once

#include "kernels/cpu/micro.h"

namespace mainstem::kernels::MAINSTEM_ISA {
namespace {

/// Calls body(offset, lanes) for whole vectors, then once for the rest.
template <typename Body>
MAINSTEM_INLINE void for_vectors(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) body(i, 16);
  if (i < count) body(i, static_cast<int>(count - i));
}
MAINSTEM_INLINE F read(const float* p, int n) { return n == 16 ? load(p) : load_part(p, n); }
MAINSTEM_INLINE void write(float* p, F a, int n) {
  if (n == 16) {
    store(p, a);
  } else {
    store_part(p, a, n);
  }
}

template <typename Function>
MAINSTEM_INLINE void map(const float* x, float* y, int64_t count, Function f) {
  for_vectors(count, [&](int64_t i, int n) { write(y + i, f(read(x + i, n)), n); });
}
template <typename Function>
MAINSTEM_INLINE void map(const float* a, const float* b, float* y, int64_t count, Function f) {
  for_vectors(count, [&](int64_t i, int n) { write(y + i, f(read(a + i, n), read(b + i, n)), n); });
}

void multiply(const float* a, const float* b, float* y, int64_t count) {
  map(a, b, y, count, [](F p, F q) { return mul(p, q); });
}
void add_rows(const float* a, const float* b, float* y, int64_t count) {
  map(a, b, y, count, [](F p, F q) { return add(p, q); });
}
void scale(float factor, const float* x, float* y, int64_t count) {
  const F f = set1(factor);
  map(x, y, count, [&](F p) { return mul(p, f); });
}
void soft_cap(float cap, const float* x, float* y, int64_t count) {
  const F c = set1(cap);
  map(x, y, count, [&](F p) { return mul(c, tanh(div(p, c))); });
}

template <Activation kind>
void activate(const float* x, float* y, int64_t count) {
  map(x, y, count, [](F p) { return curve<kind>(p); });
}
void activation(Activation kind, const float* x, float* y, int64_t count) {
  switch (kind) {
    case Activation::kRelu:
      return activate<Activation::kRelu>(x, y, count);
    case Activation::kReluSquared:
      return activate<Activation::kReluSquared>(x, y, count);
    case Activation::kGeluErf:
      return activate<Activation::kGeluErf>(x, y, count);
    case Activation::kGeluTanh:
      return activate<Activation::kGeluTanh>(x, y, count);
    case Activation::kSilu:
      return activate<Activation::kSilu>(x, y, count);
    case Activation::kQuickGelu:
      return activate<Activation::kQuickGelu>(x, y, count);
  }
}
template <Activation kind>
void gated(const float* x, const float* value, float* y, int64_t count) {
  map(x, value, y, count, [](F p, F q) { return mul(curve<kind>(p), q); });
}
void gate(Activation kind, const float* x, const float* value, float* y, int64_t count) {
  switch (kind) {
    case Activation::kRelu:
      return gated<Activation::kRelu>(x, value, y, count);
    case Activation::kReluSquared:
      return gated<Activation::kReluSquared>(x, value, y, count);
    case Activation::kGeluErf:
      return gated<Activation::kGeluErf>(x, value, y, count);
    case Activation::kGeluTanh:
      return gated<Activation::kGeluTanh>(x, value, y, count);
    case Activation::kSilu:
      return gated<Activation::kSilu>(x, value, y, count);
    case Activation::kQuickGelu:
      return gated<Activation::kQuickGelu>(x, value, y, count);
  }
}

// ---------------------------------------------------------------- norm

/// Four accumulators, added in a fixed order, in double.
template <typename Step>
MAINSTEM_INLINE double reduce(const float* x, int64_t count, Step step) {
  D sum[2] = {dzero(), dzero()};
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    sum[0] = step(load(x + i), sum[0], 16);
    sum[1] = step(load(x + i + 16), sum[1], 16);
  }
  for_vectors(count - i, [&](int64_t j, int n) { sum[0] = step(read(x + i + j, n), sum[0], n); });
  return horizontal_sum(sum[0]) + horizontal_sum(sum[1]);
}

MAINSTEM_INLINE F keep_first(F a, int n) {
  return n == 16 ? a : select(less(lane_index(), set1(static_cast<float>(n))), a, zero());
}

void norm_row(const float* x, int64_t columns, const NormPrologue* norm, float* y,
              int64_t block_stride) {
  float mean = 0, factor = 1;
  if (norm != nullptr) {
    const auto size = static_cast<double>(columns);
    double square;
    if (norm->layer_norm) {
      mean = static_cast<float>(reduce(x, columns, [](F a, D sum, int) { return dadd(a, sum); }) /
                                size);
      const F shift = set1(mean);
      square = reduce(x, columns, [&](F a, D sum, int n) {
        return dadd_square(keep_first(sub(a, shift), n), sum);
      });
    } else {
      square = reduce(x, columns, [](F a, D sum, int) { return dadd_square(a, sum); });
    }
    factor =
        static_cast<float>(1.0 / __builtin_sqrt(square / size + static_cast<double>(norm->eps)));
  }
  const bool centred = norm != nullptr && norm->layer_norm;
  const F shift = set1(mean), f = set1(factor);
  for (int64_t begin = 0; begin < columns; begin += kInputBlock, y += block_stride) {
    const int64_t count = columns - begin < kInputBlock ? columns - begin : kInputBlock;
    for_vectors(count, [&](int64_t i, int n) {
      F v = read(x + begin + i, n);
      if (norm != nullptr) {
        if (centred) v = sub(v, shift);
        v = mul(v, f);
        if (norm->weight != nullptr) {
          v = mul(v, add(set1(norm->weight_offset), read(norm->weight + begin + i, n)));
        }
        if (norm->bias != nullptr) v = add(v, read(norm->bias + begin + i, n));
      }
      write(y + i, v, n);
    });
  }
}

void quantize_row(const float* x, int64_t columns, int64_t block_stride, int8_t* q,
                  int64_t q_stride, QuantMeta* meta, int64_t meta_stride) {
  for (int64_t block = 0; block < columns / kQuantBlock; ++block) {
    const float* at = x + block / 2 * block_stride + block % 2 * kQuantBlock;
    const F lo = load(at), hi = load(at + 16);
    const float largest = largest_magnitude(lo, hi);
    int8_t* to = q + block * q_stride;
    QuantMeta& m = meta[block * meta_stride];
    if (largest >= 0x1p-113f && largest <= 0x1.fffffep127f) {
      const float scale = largest / 127.0f;
      const F inverse = set1(127.0f / largest);
      const int32_t sum = store_int8(to, mul(lo, inverse), mul(hi, inverse));
      m = {scale, scale * static_cast<float>(sum), -8 * sum, -128 * sum};
    } else {
      // Below 2^-113 everything counts as 0; what is not finite must show in the result.
      const float scale = largest < 1 ? 0.0f : __builtin_nanf("");
      std::memset(to, 0, kQuantBlock);
      m = {scale, scale, 0, 0};
    }
  }
}

// ---------------------------------------------------------------- softmax, rotary

void softmax_row(const float* x, float* y, int64_t count) {
  F top = set1(-__builtin_inff());
  for_vectors(count, [&](int64_t i, int n) {
    const F v = read(x + i, n);
    top = max(n == 16 ? v : select(less(lane_index(), set1(static_cast<float>(n))), v, top), top);
  });
  const F shift = set1(horizontal_max(top));
  F sum = zero();
  for_vectors(count, [&](int64_t i, int n) {
    const F e = exp(sub(read(x + i, n), shift));
    write(y + i, e, n);
    sum = add(sum, keep_first(e, n));
  });
  const F total = set1(horizontal_sum(sum));
  map(y, y, count, [&](F p) { return div(p, total); });
}

void rotary_head(const float* x, float* y, const float* cosine, const float* sine,
                 int64_t head_width, int64_t width, bool interleaved) {
  const int64_t pairs = width / 2;
  if (interleaved) {
    int64_t j = 0;
    for (; j + 8 <= pairs; j += 8) {
      const F v = load(x + 2 * j);
      const F turned = negate_even(swap_pairs(v));  // (-x1, x0)
      store(y + 2 * j, fma(turned, load_doubled(sine + j), mul(v, load_doubled(cosine + j))));
    }
    for (; j < pairs; ++j) {
      const F v = load_part(x + 2 * j, 2);
      const F turned = negate_even(swap_pairs(v));
      store_part(y + 2 * j, fma(turned, set1(sine[j]), mul(v, set1(cosine[j]))), 2);
    }
  } else {
    for_vectors(pairs, [&](int64_t j, int n) {
      const F a = read(x + j, n), b = read(x + pairs + j, n);
      const F c = read(cosine + j, n), s = read(sine + j, n);
      write(y + j, fma(negate(b), s, mul(a, c)), n);
      write(y + pairs + j, fma(a, s, mul(b, c)), n);
    });
  }
  if (x != y && width < head_width) {
    std::memcpy(y + width, x + width, static_cast<size_t>(head_width - width) * sizeof(float));
  }
}

}  // namespace

const RowKernels kRows = {norm_row, quantize_row, activation, multiply,    add_rows,
                          scale,    soft_cap,     gate,       softmax_row, rotary_head};

}  // namespace mainstem::kernels::MAINSTEM_ISA
