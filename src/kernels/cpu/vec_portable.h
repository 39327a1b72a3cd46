#pragma once

// The vector vocabulary that the kernels are written in: sixteen float32 lanes, in plain C++.
// vec_avx2.h and vec_avx512.h say the same in intrinsics. Kernels include one of the three and then
// the .inl files; everything is internal to one source file and one namespace per instruction set,
// so that no function compiled for a newer processor can replace one that runs everywhere.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define MAINSTEM_ISA portable
#define MAINSTEM_INLINE [[gnu::always_inline]] inline

namespace mainstem::kernels::MAINSTEM_ISA {
namespace {

/// Registers for sums (as F), and the tile heights that follow.
constexpr int kSumVectors = 3, kTileRows = 3, kInt8TileRows = 4;
/// Tile heights of products of chains, whose panels are one F or one D wide.
constexpr int kChainRowsF32 = 2, kChainRowsF64 = 1;

struct F {
  float v[16];
};
struct Mask {
  bool v[16];
};
struct Ints {
  int32_t v[16];
};
struct Bytes {  ///< row i has bytes 4i .. 4i+3
  uint8_t v[64];
};
struct D {
  double v[16];
};

template <typename Body>
MAINSTEM_INLINE F lanes(Body body) {
  F r;
  for (int i = 0; i < 16; ++i) r.v[i] = body(i);
  return r;
}

MAINSTEM_INLINE F load(const float* p) {
  F r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}
/// Reads n values only; the other lanes are 0.
MAINSTEM_INLINE F load_part(const float* p, int n) {
  return lanes([&](int i) { return i < n ? p[i] : 0.0f; });
}
MAINSTEM_INLINE void store(float* p, F a) { std::memcpy(p, a.v, sizeof a.v); }
MAINSTEM_INLINE void store_part(float* p, F a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
MAINSTEM_INLINE F set1(float x) {
  return lanes([&](int) { return x; });
}
MAINSTEM_INLINE F zero() { return set1(0); }
MAINSTEM_INLINE F lane_index() {
  return lanes([](int i) { return static_cast<float>(i); });
}
MAINSTEM_INLINE F add(F a, F b) {
  return lanes([&](int i) { return a.v[i] + b.v[i]; });
}
MAINSTEM_INLINE F sub(F a, F b) {
  return lanes([&](int i) { return a.v[i] - b.v[i]; });
}
MAINSTEM_INLINE F mul(F a, F b) {
  return lanes([&](int i) { return a.v[i] * b.v[i]; });
}
MAINSTEM_INLINE F div(F a, F b) {
  return lanes([&](int i) { return a.v[i] / b.v[i]; });
}
/// a b + c, with one rounding where the processor has it.
MAINSTEM_INLINE F fma(F a, F b, F c) {
  return lanes([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
/// c - a b
MAINSTEM_INLINE F fnma(F a, F b, F c) {
  return lanes([&](int i) { return c.v[i] - a.v[i] * b.v[i]; });
}
/// a b - p where p is the rounded product: its exact error.
MAINSTEM_INLINE F product_error(F a, F b, F p) {
  return lanes([&](int i) {
    return static_cast<float>(static_cast<double>(a.v[i]) * b.v[i] - static_cast<double>(p.v[i]));
  });
}
/// b where either is NaN.
MAINSTEM_INLINE F max(F a, F b) {
  return lanes([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
/// b where either is NaN.
MAINSTEM_INLINE F min(F a, F b) {
  return lanes([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
MAINSTEM_INLINE F abs(F a) {
  return lanes([&](int i) { return std::fabs(a.v[i]); });
}
MAINSTEM_INLINE F copy_sign(F magnitude, F sign) {
  return lanes([&](int i) { return std::copysign(magnitude.v[i], sign.v[i]); });
}
/// To the nearest whole number, ties to even. Below 2^22 in magnitude, or NaN.
MAINSTEM_INLINE F round(F a) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: the sum has no fraction bits left
  return lanes([&](int i) { return (a.v[i] + kShift) - kShift; });
}
/// 2^n for whole n in [-126, 127]; anything for NaN.
MAINSTEM_INLINE F power_of_two(F n) {
  return lanes([&](int i) {
    const int exponent = n.v[i] >= -126.0f && n.v[i] <= 127.0f ? static_cast<int>(n.v[i]) : 0;
    const auto bits = static_cast<uint32_t>(exponent + 127) << 23;
    float r;
    std::memcpy(&r, &bits, 4);
    return r;
  });
}
/// a 2^n for whole n in [-252, 254], rounded once even where the result is denormal.
MAINSTEM_INLINE F scale_exp2(F a, F n) {
  const F half = round(mul(n, set1(0.5f)));
  return mul(mul(a, power_of_two(half)), power_of_two(sub(n, half)));
}
MAINSTEM_INLINE Mask less(F a, F b) {
  Mask m;
  for (int i = 0; i < 16; ++i) m.v[i] = a.v[i] < b.v[i];
  return m;
}
MAINSTEM_INLINE Mask both(Mask a, Mask b) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] && b.v[i];
  return a;
}
MAINSTEM_INLINE F select(Mask m, F yes, F no) {
  return lanes([&](int i) { return m.v[i] ? yes.v[i] : no.v[i]; });
}
MAINSTEM_INLINE float first_lane(F a) { return a.v[0]; }
/// Fixed order: lanes (i, i + 8) first, then (i, i + 4), and so on.
template <typename T>
MAINSTEM_INLINE T fold(T* lanes16) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes16[i] += lanes16[i + width];
  }
  return lanes16[0];
}
MAINSTEM_INLINE float horizontal_sum(F a) { return fold(a.v); }
/// A NaN may be lost.
MAINSTEM_INLINE float horizontal_max(F a) {
  float m = a.v[0];
  for (int i = 1; i < 16; ++i) m = a.v[i] > m ? a.v[i] : m;
  return m;
}
/// Of both; NaN counts as larger than infinity.
MAINSTEM_INLINE float largest_magnitude(F a, F b) {
  uint32_t most = 0;
  for (int i = 0; i < 32; ++i) {
    uint32_t bits;
    std::memcpy(&bits, i < 16 ? &a.v[i] : &b.v[i - 16], 4);
    bits &= 0x7FFFFFFFu;
    most = bits > most ? bits : most;
  }
  float r;
  std::memcpy(&r, &most, 4);
  return r;
}

/// (a1, a0, a3, a2, …)
MAINSTEM_INLINE F swap_pairs(F a) {
  return lanes([&](int i) { return a.v[i ^ 1]; });
}
/// Eight values, each twice: (p0, p0, p1, p1, …)
MAINSTEM_INLINE F load_doubled(const float* p) {
  return lanes([&](int i) { return p[i / 2]; });
}
MAINSTEM_INLINE F negate_even(F a) {
  return lanes([&](int i) { return i % 2 == 0 ? -a.v[i] : a.v[i]; });
}

// ---- double accumulators
MAINSTEM_INLINE D dzero() { return {}; }
MAINSTEM_INLINE D dadd(F a, D sum) {
  for (int i = 0; i < 16; ++i) sum.v[i] += static_cast<double>(a.v[i]);
  return sum;
}
MAINSTEM_INLINE D dadd_square(F a, D sum) {
  for (int i = 0; i < 16; ++i) sum.v[i] += static_cast<double>(a.v[i]) * a.v[i];
  return sum;
}
MAINSTEM_INLINE D dload(const double* p) {
  D r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}
MAINSTEM_INLINE void dstore(double* p, D a) { std::memcpy(p, a.v, sizeof a.v); }
MAINSTEM_INLINE D dadd(D a, D b) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
  return a;
}
/// x b + c
MAINSTEM_INLINE D dfma(double x, D b, D c) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) c.v[i] = x * b.v[i] + c.v[i];
  return c;
}
MAINSTEM_INLINE double horizontal_sum(D a) { return fold(a.v); }

// ---- small formats
MAINSTEM_INLINE float widen_f16(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 31u, mantissa = h & 1023u;
  if (exponent == 0) {
    const float tiny = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -tiny : tiny;
  }
  const uint32_t quiet = exponent == 31 && mantissa != 0 ? 0x400000u : 0u;
  const uint32_t bits =
      sign | ((exponent == 31 ? 255u : exponent + 112u) << 23) | (mantissa << 13) | quiet;
  float r;
  std::memcpy(&r, &bits, 4);
  return r;
}
MAINSTEM_INLINE uint16_t half_word(const std::byte* p, int i) {
  uint16_t h;
  std::memcpy(&h, p + 2 * i, 2);
  return h;
}
MAINSTEM_INLINE F load_f16(const std::byte* p) {
  return lanes([&](int i) { return widen_f16(half_word(p, i)); });
}
MAINSTEM_INLINE F load_bf16(const std::byte* p) {
  return lanes([&](int i) {
    const uint32_t bits = static_cast<uint32_t>(half_word(p, i)) << 16;
    float r;
    std::memcpy(&r, &bits, 4);
    return r;
  });
}

// ---- bytes: sixteen rows of four
MAINSTEM_INLINE Bytes load_bytes(const std::byte* p) {
  Bytes r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}
MAINSTEM_INLINE Bytes low_nibbles(Bytes a) {
  for (uint8_t& x : a.v) x = x & 15u;
  return a;
}
MAINSTEM_INLINE Bytes high_nibbles(Bytes a) {
  for (uint8_t& x : a.v) x = static_cast<uint8_t>(x >> 4);
  return a;
}
/// Byte i of every row as a number 0..255.
MAINSTEM_INLINE F byte_of_row(Bytes a, int i) {
  return lanes([&](int row) { return static_cast<float>(a.v[4 * row + i]); });
}
MAINSTEM_INLINE Ints set1_int(int32_t x) {
  Ints r;
  for (int32_t& v : r.v) v = x;
  return r;
}
MAINSTEM_INLINE F to_float(Ints a) {
  return lanes([&](int i) { return static_cast<float>(a.v[i]); });
}
/// dot_bytes gives sum((w + kByteOffset - 128) a): with an offset the caller starts at -128 sum(a).
constexpr int kByteOffset = 0;
/// sum[i] += the dot product of row i's four bytes (0..15) with a[0..3].
MAINSTEM_INLINE Ints dot_nibbles(Ints sum, Bytes w, const int8_t* a) {
  for (int i = 0; i < 16; ++i) {
    for (int c = 0; c < 4; ++c) sum.v[i] += w.v[4 * i + c] * a[c];
  }
  return sum;
}
/// The same with bytes that are stored with 128 added.
MAINSTEM_INLINE Ints dot_bytes(Ints sum, Bytes w, const int8_t* a) {
  for (int i = 0; i < 16; ++i) {
    for (int c = 0; c < 4; ++c) sum.v[i] += (w.v[4 * i + c] - 128) * a[c];
  }
  return sum;
}
/// Both, rounded to nearest even, as 32 bytes; lanes fit int8. Returns their sum.
MAINSTEM_INLINE int32_t store_int8(int8_t* p, F a, F b) {
  int32_t sum = 0;
  const F first = round(a), second = round(b);
  for (int i = 0; i < 32; ++i) {
    p[i] = static_cast<int8_t>(i < 16 ? first.v[i] : second.v[i - 16]);
    sum += p[i];
  }
  return sum;
}
MAINSTEM_INLINE void prefetch(const std::byte*) {}

}  // namespace
}  // namespace mainstem::kernels::MAINSTEM_ISA
