// One tile of a product of chains, in float and in double.

#pragma once

#include "kernels/cpu/micro.h"

namespace mainstem::kernels::MAINSTEM_ISA {
namespace {

MAINSTEM_INLINE F chain_load(const float* p) { return load(p); }
MAINSTEM_INLINE D chain_load(const double* p) { return dload(p); }
MAINSTEM_INLINE void chain_store(float* p, F a) { store(p, a); }
MAINSTEM_INLINE void chain_store(double* p, D a) { dstore(p, a); }
MAINSTEM_INLINE F chain_step(float x, F w, F sum) { return fma(set1(x), w, sum); }
MAINSTEM_INLINE D chain_step(double x, D w, D sum) { return dfma(x, w, sum); }
MAINSTEM_INLINE F chain_add(F a, F b) { return add(a, b); }
MAINSTEM_INLINE D chain_add(D a, D b) { return dadd(a, b); }

template <typename T>
struct Lanes;
template <>
struct Lanes<float> {
  using Type = F;
  static constexpr int kRows = kChainRowsF32;
};
template <>
struct Lanes<double> {
  using Type = D;
  static constexpr int kRows = kChainRowsF64;
};

template <typename T, int R>
void chain_rows(const ChainTile<T>& t) {
  using V = typename Lanes<T>::Type;
  V sum[R] = {};
  const T* x = t.x;
  const T* w = t.w;
  for (int64_t k = 0; k < t.places; ++k, x += R, w += 16) {
    const V column = chain_load(w);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) sum[r] = chain_step(x[r], column, sum[r]);
  }
  for (int r = 0; r < R; ++r) {
    T* c = t.c + r * t.c_stride;
    chain_store(c, chain_add(chain_load(c), sum[r]));
  }
}

template <typename T, int R = Lanes<T>::kRows>
void chain_tile(const ChainTile<T>& t) {
  if constexpr (R > 1) {
    if (t.rows < R) return chain_tile<T, R - 1>(t);
  }
  chain_rows<T, R>(t);
}

}  // namespace

const ChainKernels kChain = {kChainRowsF32, kChainRowsF64, chain_tile<float>, chain_tile<double>};

}  // namespace mainstem::kernels::MAINSTEM_ISA
