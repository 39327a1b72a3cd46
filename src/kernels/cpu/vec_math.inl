// Elementary functions on sixteen lanes. Included after one of the vec_*.h files.
// Largest errors are printed by the target kernel_errors.

#pragma once

#include "mainstem/activation.h"

namespace mainstem::kernels::MAINSTEM_ISA {
namespace {

MAINSTEM_INLINE F negate(F a) { return sub(set1(-0.0f), a); }

struct Reduced {
  F n, q;
};
/// y = n ln 2 + r, |r| <= ln(2)/2; q = exp(r) - 1 by its Taylor series (next term below 6e-9).
MAINSTEM_INLINE Reduced reduce_exp(F y) {
  const F n = round(mul(y, set1(1.44269504f)));
  // ln 2 in two parts; the first has few enough bits that n times it is exact.
  const F r = fnma(n, set1(-2.12194440e-4f), fnma(n, set1(0.693359375f), y));
  F p = set1(1.0f / 5040);
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  p = fma(p, r, set1(0.5f));
  return {n, fma(mul(r, r), p, r)};
}

MAINSTEM_INLINE F exp(F x) {
  // Beyond these limits the result is 0 or infinite in float32 anyway. NaN passes both.
  const F y = max(set1(-104.0f), min(set1(89.0f), x));
  const Reduced e = reduce_exp(y);
  return scale_exp2(add(e.q, set1(1.0f)), e.n);
}

/// em1 / (em1 + 2) with em1 = exp(2 |x|) - 1: no cancellation near 0.
MAINSTEM_INLINE F tanh(F x) {
  const F y = min(set1(40.0f), mul(abs(x), set1(2.0f)));
  const Reduced e = reduce_exp(y);
  const F power = power_of_two(e.n);
  const F em1 = fma(power, e.q, sub(power, set1(1.0f)));
  return copy_sign(div(em1, add(em1, set1(2.0f))), x);
}

/// x times the logistic function of s. exp never overflows, so small results keep their accuracy.
MAINSTEM_INLINE F times_sigmoid(F x, F s) {
  const F e = exp(negate(abs(s)));
  const F numerator = select(less(s, zero()), e, set1(1.0f));
  return div(mul(x, numerator), add(set1(1.0f), e));
}

/// The normal distribution's cumulative function, Phi(x) = (1 + erf(x / sqrt 2)) / 2.
/// Phi(-t) = exp(-t^2/2) Q(u) / (t + 5/2), u = (t - 5/2)/(t + 5/2): relative error 1.6e-8 over
/// [0, 15] before rounding (own fit). So the tail keeps its relative accuracy.
MAINSTEM_INLINE F normal_cdf(F x) {
  const F t = min(set1(15.0f), abs(x));
  const F r = div(set1(1.0f), add(t, set1(2.5f)));
  const F u = mul(sub(t, set1(2.5f)), r);
  F p = set1(-0.000157703122f);
  p = fma(p, u, set1(-0.000311623997f));
  p = fma(p, u, set1(0.000684413244f));
  p = fma(p, u, set1(0.002523934f));
  p = fma(p, u, set1(-0.00160083012f));
  p = fma(p, u, set1(-0.0163861867f));
  p = fma(p, u, set1(0.00923587568f));
  p = fma(p, u, set1(0.131986976f));
  p = fma(p, u, set1(-0.433692008f));
  p = fma(p, u, set1(0.706656635f));
  const F square = mul(t, t);
  const F low = product_error(t, t, square);
  const F e = exp(mul(square, set1(-0.5f)));
  const F tail = mul(mul(p, r), fma(mul(e, low), set1(-0.5f), e));
  return select(less(zero(), x), sub(set1(1.0f), tail), tail);
}

template <Activation kind>
MAINSTEM_INLINE F curve(F x) {
  if constexpr (kind == Activation::kRelu) {
    return max(zero(), x);
  } else if constexpr (kind == Activation::kReluSquared) {
    const F r = max(zero(), x);
    return mul(r, r);
  } else if constexpr (kind == Activation::kGeluErf) {
    return mul(x, normal_cdf(x));
  } else if constexpr (kind == Activation::kGeluTanh) {
    // (1 + tanh u) / 2 is the logistic function of 2u, which does not cancel.
    const F cubic = fma(mul(mul(x, x), x), set1(0.044715f), x);
    return times_sigmoid(x, mul(cubic, set1(1.59576912f)));
  } else if constexpr (kind == Activation::kSilu) {
    return times_sigmoid(x, x);
  } else {
    return times_sigmoid(x, mul(x, set1(1.702f)));
  }
}

}  // namespace
}  // namespace mainstem::kernels::MAINSTEM_ISA
