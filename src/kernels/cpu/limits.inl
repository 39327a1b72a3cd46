// Loops that do nothing but multiply-adds, dot products or loads.

#pragma once

#include "kernels/cpu/micro.h"

namespace mainstem::kernels::MAINSTEM_ISA {
namespace {

/// Keeps a value alive without storing it each round.
template <typename T>
MAINSTEM_INLINE void keep(T& value) {
  asm volatile("" : "+m"(value));
}

constexpr int kChains = kSumVectors >= 12 ? 12 : kSumVectors;
constexpr int kUnroll = 64;

double f32_peak(int64_t rounds) {
  F sum[kChains];
  for (F& s : sum) s = zero();
  float factors[2] = {1.0000001f, 1e-9f};
  keep(factors);
  const F a = set1(factors[0]), b = set1(factors[1]);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      for (F& s : sum) s = fma(s, a, b);
    }
  }
  float total = 0;
  for (const F& s : sum) total += first_lane(s);
  keep(total);
  return static_cast<double>(rounds) * kUnroll * kChains * 32;
}

double f64_peak(int64_t rounds) {
  constexpr int kDoubleChains = kChainRowsF64;
  D sum[kDoubleChains];
  for (D& s : sum) s = dzero();
  double factors[1] = {1.0000001};
  double values[16];
  for (double& v : values) v = 1e-9;
  keep(factors);
  keep(values);
  const D b = dload(values);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      for (D& s : sum) s = dfma(factors[0], b, s);
    }
  }
  double total = 0;
  for (const D& s : sum) total += horizontal_sum(s);
  keep(total);
  return static_cast<double>(rounds) * kUnroll * kDoubleChains * 32;
}

double int8_peak(int64_t rounds) {
  Ints sum[kChains];
  for (Ints& s : sum) s = set1_int(0);
  std::byte bytes[64] = {};
  int8_t input[4] = {1, 2, 3, 4};
  keep(bytes);
  keep(input);
  const Bytes w = load_bytes(bytes);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      for (Ints& s : sum) s = dot_nibbles(s, w, input);
    }
  }
  float total = 0;
  for (const Ints& s : sum) total += first_lane(to_float(s));
  keep(total);
  return static_cast<double>(rounds) * kUnroll * kChains * 128;
}

uint64_t read_memory(const std::byte* data, int64_t bytes) {
  F sum[4] = {zero(), zero(), zero(), zero()};
  for (int64_t i = 0; i < bytes; i += 256) {
    const auto* p = reinterpret_cast<const float*>(data + i);
    for (int j = 0; j < 4; ++j) sum[j] = max(sum[j], load(p + 16 * j));
  }
  const F all = max(max(sum[0], sum[1]), max(sum[2], sum[3]));
  const float first = first_lane(all);
  uint32_t bits;
  std::memcpy(&bits, &first, 4);
  return bits;
}

}  // namespace

const LimitKernels kLimits = {f32_peak, f64_peak, int8_peak, read_memory};

}  // namespace mainstem::kernels::MAINSTEM_ISA
