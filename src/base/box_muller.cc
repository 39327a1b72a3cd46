#include "base/box_muller.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#if defined(__GNUC__)
#define MAINSTEM_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define MAINSTEM_ALWAYS_INLINE inline
#endif

namespace mainstem {
namespace {

// torch computes logarithm, sine and cosine with the single-precision polynomials of the Cephes
// library (logf.c, sinf.c), eight values wide and with fused multiply-adds. Fused here means
// fused: __builtin_fmaf is one instruction where the processor has it and the exact library
// function elsewhere, so the values are the same on every machine. No product is added without
// it, so that a compiler finds nothing to fuse on its own.

constexpr int kLanes = kBoxMullerGroup / 2;

MAINSTEM_ALWAYS_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/// Natural logarithm of a normal positive number.
MAINSTEM_ALWAYS_INLINE float cephes_log(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // value = mantissa * 2^exponent with the mantissa in [1/2, 1), then in [sqrt(1/2), sqrt(2)).
  const float mantissa = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f000000u);
  const bool low = mantissa < 0.707106781186547524f;
  const int whole = static_cast<int>(bits >> 23) - 126;
  const float exponent = static_cast<float>(low ? whole - 1 : whole);
  const float x = (mantissa - 1.0f) + (low ? mantissa : 0.0f);
  const float square = x * x;
  float y = 7.0376836292e-2f;
  y = fused(y, x, -1.1514610310e-1f);
  y = fused(y, x, 1.1676998740e-1f);
  y = fused(y, x, -1.2420140846e-1f);
  y = fused(y, x, 1.4249322787e-1f);
  y = fused(y, x, -1.6668057665e-1f);
  y = fused(y, x, 2.0000714765e-1f);
  y = fused(y, x, -2.4999993993e-1f);
  y = fused(y, x, 3.3333331174e-1f);
  // ln 2 = 0.693359375 - 2.12194440e-4
  y = fused(y * x, square, exponent * -2.12194440e-4f);
  y = fused(square, -0.5f, y);
  return fused(exponent, 0.693359375f, x + y);
}

/// Sine and cosine of an angle from 0 to a few turns.
MAINSTEM_ALWAYS_INLINE void cephes_sincos(float angle, float& sine, float& cosine) {
  const auto eighth = static_cast<int32_t>(angle * 1.27323954473516f);  // 4 / pi
  const int32_t octant = (eighth + 1) & ~1;
  const auto turns = static_cast<float>(octant);
  // Minus pi / 4 in three parts.
  float x = fused(turns, -0.78515625f, angle);
  x = fused(turns, -2.4187564849853515625e-4f, x);
  x = fused(turns, -3.77489497744594108e-8f, x);
  const float square = x * x;
  float c = fused(2.443315711809948e-5f, square, -1.388731625493765e-3f);
  c = fused(c, square, 4.166664568298827e-2f);
  c = fused(c * square, square, -(square * 0.5f)) + 1.0f;
  float s = fused(-1.9515295891e-4f, square, 8.3321608736e-3f);
  s = fused(s, square, -1.6666654611e-1f);
  s = fused(s * square, x, x);
  const bool even = (octant & 2) == 0;
  const float plain_sine = even ? s : c;
  const float plain_cosine = even ? c : s;
  sine = (octant & 4) != 0 ? -plain_sine : plain_sine;
  cosine = ((octant - 2) & 4) == 0 ? -plain_cosine : plain_cosine;
}

/// Box and Muller: 16 uniforms to 16 normals in place; element j pairs with j + 8.
MAINSTEM_ALWAYS_INLINE void sixteen_normals(float* values) {
  float radius[kLanes], sine[kLanes], cosine[kLanes];
  for (int j = 0; j < kLanes; ++j) radius[j] = -2.0f * cephes_log(1.0f - values[j]);
  for (int j = 0; j < kLanes; ++j) radius[j] = std::sqrt(radius[j]);
  for (int j = 0; j < kLanes; ++j) {
    constexpr auto kTurn = static_cast<float>(2 * std::numbers::pi);
    cephes_sincos(kTurn * values[j + kLanes], sine[j], cosine[j]);
  }
  for (int j = 0; j < kLanes; ++j) {
    values[j] = radius[j] * cosine[j];
    values[j + kLanes] = radius[j] * sine[j];
  }
}

#if defined(__x86_64__)
// The same code with the fused instruction in place of a library call for each step.
__attribute__((target("avx2,fma"))) void normals_fma(float* values, size_t groups) {
  for (size_t g = 0; g < groups; ++g) sixteen_normals(values + g * kBoxMullerGroup);
}
#endif

}  // namespace

void box_muller_portable(float* values, size_t groups) {
  for (size_t g = 0; g < groups; ++g) sixteen_normals(values + g * kBoxMullerGroup);
}

void box_muller(float* values, size_t groups) {
#if defined(__x86_64__)
  static const bool has_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_fma) return normals_fma(values, groups);
#endif
  box_muller_portable(values, groups);
}

void box_muller(double* values, size_t groups) {
  for (double* group = values; group != values + groups * kBoxMullerGroup;
       group += kBoxMullerGroup) {
    for (int j = 0; j < kLanes; ++j) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - group[j]));
      const double angle = 2.0 * std::numbers::pi * group[j + kLanes];
      group[j] = radius * std::cos(angle);
      group[j + kLanes] = radius * std::sin(angle);
    }
  }
}

}  // namespace mainstem
