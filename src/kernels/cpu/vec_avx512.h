#pragma once

// Sixteen float32 lanes as one 512-bit register; see vec_portable.h for what each function means.

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 takes the undefined operand of its own intrinsics for a mistake.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifndef MAINSTEM_ISA
#define MAINSTEM_ISA avx512
#endif
#define MAINSTEM_INLINE [[gnu::always_inline]] inline

namespace mainstem::kernels::MAINSTEM_ISA {
namespace {

/// Registers for sums (as F), and the tile heights that follow.
constexpr int kSumVectors = 24, kTileRows = 6, kInt8TileRows = 12;
constexpr int kChainRowsF32 = 12, kChainRowsF64 = 12;

struct F {
  __m512 v;
};
struct Mask {
  __mmask16 v;
};
struct Ints {
  __m512i v;
};
struct Bytes {
  __m512i v;
};
struct D {
  __m512d v[2];
};

MAINSTEM_INLINE F load(const float* p) { return {_mm512_loadu_ps(p)}; }
MAINSTEM_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
MAINSTEM_INLINE F load_part(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
MAINSTEM_INLINE void store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
MAINSTEM_INLINE void store_part(float* p, F a, int n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
MAINSTEM_INLINE F set1(float x) { return {_mm512_set1_ps(x)}; }
MAINSTEM_INLINE F zero() { return {_mm512_setzero_ps()}; }
MAINSTEM_INLINE F lane_index() {
  return {_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
}
MAINSTEM_INLINE F add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
MAINSTEM_INLINE F sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
MAINSTEM_INLINE F mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
MAINSTEM_INLINE F div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
MAINSTEM_INLINE F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
MAINSTEM_INLINE F fnma(F a, F b, F c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
MAINSTEM_INLINE F product_error(F a, F b, F p) { return {_mm512_fmsub_ps(a.v, b.v, p.v)}; }
MAINSTEM_INLINE F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
MAINSTEM_INLINE F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
MAINSTEM_INLINE F abs(F a) { return {_mm512_abs_ps(a.v)}; }
MAINSTEM_INLINE F copy_sign(F magnitude, F sign) {
  const __m512i bit = _mm512_set1_epi32(INT32_MIN);
  return {_mm512_castsi512_ps(_mm512_ternarylogic_epi32(bit, _mm512_castps_si512(sign.v),
                                                        _mm512_castps_si512(magnitude.v), 0xCA))};
}
MAINSTEM_INLINE F round(F a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
MAINSTEM_INLINE F scale_exp2(F a, F n) { return {_mm512_scalef_ps(a.v, n.v)}; }
MAINSTEM_INLINE F power_of_two(F n) { return {_mm512_scalef_ps(_mm512_set1_ps(1), n.v)}; }
MAINSTEM_INLINE Mask less(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
MAINSTEM_INLINE Mask both(Mask a, Mask b) { return {static_cast<__mmask16>(a.v & b.v)}; }
MAINSTEM_INLINE F select(Mask m, F yes, F no) { return {_mm512_mask_blend_ps(m.v, no.v, yes.v)}; }

MAINSTEM_INLINE float first_lane(F a) { return _mm512_cvtss_f32(a.v); }
MAINSTEM_INLINE float horizontal_sum(F a) {
  const __m256 x = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 z = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}
MAINSTEM_INLINE float horizontal_max(F a) {
  const __m256 x = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 z = _mm_max_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}
MAINSTEM_INLINE float largest_magnitude(F a, F b) {
  const __m512i bits = _mm512_set1_epi32(INT32_MAX);
  const __m512i m = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a.v), bits),
                                     _mm512_and_si512(_mm512_castps_si512(b.v), bits));
  const __m256i x = _mm256_max_epi32(_mm512_castsi512_si256(m), _mm512_extracti32x8_epi32(m, 1));
  const __m128i y = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  const __m128i z = _mm_max_epi32(y, _mm_unpackhi_epi64(y, y));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(z, _mm_shuffle_epi32(z, 0x55))));
}

// The pair (a[i], a[i+1]) of even i exchanged; eight values, each twice.
MAINSTEM_INLINE F swap_pairs(F a) { return {_mm512_permute_ps(a.v, 0xB1)}; }
MAINSTEM_INLINE F load_doubled(const float* p) {
  const __m512 x = _mm512_castps256_ps512(_mm256_loadu_ps(p));
  return {
      _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), x)};
}
MAINSTEM_INLINE F negate_even(F a) {
  return {_mm512_castsi512_ps(_mm512_xor_si512(
      _mm512_castps_si512(a.v), _mm512_set1_epi64(static_cast<int64_t>(0x80000000u))))};
}

// ---- double accumulators
MAINSTEM_INLINE D dzero() { return {{_mm512_setzero_pd(), _mm512_setzero_pd()}}; }
MAINSTEM_INLINE __m512d half_pd(F a, int half) {
  return _mm512_cvtps_pd(half == 0 ? _mm512_castps512_ps256(a.v) : _mm512_extractf32x8_ps(a.v, 1));
}
MAINSTEM_INLINE D dadd(F a, D sum) {
  return {{_mm512_add_pd(half_pd(a, 0), sum.v[0]), _mm512_add_pd(half_pd(a, 1), sum.v[1])}};
}
MAINSTEM_INLINE D dadd_square(F a, D sum) {
  const __m512d lo = half_pd(a, 0), hi = half_pd(a, 1);
  return {{_mm512_fmadd_pd(lo, lo, sum.v[0]), _mm512_fmadd_pd(hi, hi, sum.v[1])}};
}
MAINSTEM_INLINE D dload(const double* p) { return {{_mm512_loadu_pd(p), _mm512_loadu_pd(p + 8)}}; }
MAINSTEM_INLINE void dstore(double* p, D a) {
  _mm512_storeu_pd(p, a.v[0]);
  _mm512_storeu_pd(p + 8, a.v[1]);
}
MAINSTEM_INLINE D dadd(D a, D b) {
  return {{_mm512_add_pd(a.v[0], b.v[0]), _mm512_add_pd(a.v[1], b.v[1])}};
}
MAINSTEM_INLINE D dfma(double x, D b, D c) {
  const __m512d a = _mm512_set1_pd(x);
  return {{_mm512_fmadd_pd(a, b.v[0], c.v[0]), _mm512_fmadd_pd(a, b.v[1], c.v[1])}};
}
MAINSTEM_INLINE double horizontal_sum(D a) {
  const __m512d w = _mm512_add_pd(a.v[0], a.v[1]);
  const __m256d x = _mm256_add_pd(_mm512_castpd512_pd256(w), _mm512_extractf64x4_pd(w, 1));
  const __m128d y = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_add_sd(y, _mm_unpackhi_pd(y, y)));
}

// ---- small formats
MAINSTEM_INLINE F load_f16(const std::byte* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
MAINSTEM_INLINE F load_bf16(const std::byte* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16))};
}

// ---- bytes: sixteen rows of four
MAINSTEM_INLINE Bytes load_bytes(const std::byte* p) { return {_mm512_loadu_si512(p)}; }
MAINSTEM_INLINE Bytes low_nibbles(Bytes a) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(15))}; }
MAINSTEM_INLINE Bytes high_nibbles(Bytes a) {
  return {_mm512_and_si512(_mm512_srli_epi16(a.v, 4), _mm512_set1_epi8(15))};
}
// i is a constant once loops are unrolled: shifts by an immediate.
MAINSTEM_INLINE F byte_of_row(Bytes a, int i) {
  const __m512i shifted = i == 0   ? a.v
                          : i == 1 ? _mm512_srli_epi32(a.v, 8)
                          : i == 2 ? _mm512_srli_epi32(a.v, 16)
                                   : _mm512_srli_epi32(a.v, 24);
  return {_mm512_cvtepi32_ps(_mm512_and_si512(shifted, _mm512_set1_epi32(255)))};
}
MAINSTEM_INLINE Ints set1_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
MAINSTEM_INLINE F to_float(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
MAINSTEM_INLINE __m512i broadcast4(const int8_t* p) {
  int32_t x;
  std::memcpy(&x, p, 4);
  return _mm512_set1_epi32(x);
}
#ifdef MAINSTEM_VNNI
constexpr int kByteOffset = 128;  // dot_bytes leaves the 128 in; the caller starts at -128 sum(a)
MAINSTEM_INLINE Ints dot_nibbles(Ints sum, Bytes w, const int8_t* a) {
  return {_mm512_dpbusd_epi32(sum.v, w.v, broadcast4(a))};
}
MAINSTEM_INLINE Ints dot_bytes(Ints sum, Bytes w, const int8_t* a) {
  return {_mm512_dpbusd_epi32(sum.v, w.v, broadcast4(a))};
}
#else
constexpr int kByteOffset = 0;
MAINSTEM_INLINE Ints dot_pairs(Ints sum, __m512i w, __m512i a) {
  return {
      _mm512_add_epi32(sum.v, _mm512_madd_epi16(_mm512_maddubs_epi16(w, a), _mm512_set1_epi16(1)))};
}
MAINSTEM_INLINE Ints dot_nibbles(Ints sum, Bytes w, const int8_t* a) {
  return dot_pairs(sum, w.v, broadcast4(a));
}
// |w| times a with w's sign: 128 * 127 * 2 still fits the 16 bits of maddubs.
MAINSTEM_INLINE Ints dot_bytes(Ints sum, Bytes w, const int8_t* a) {
  const __m512i x = broadcast4(a);
  const __m512i s = _mm512_xor_si512(w.v, _mm512_set1_epi8(INT8_MIN));
  const __m512i signed_x =
      _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(s), _mm512_setzero_si512(), x);
  return dot_pairs(sum, _mm512_abs_epi8(s), signed_x);
}
#endif

MAINSTEM_INLINE int32_t store_int8(int8_t* p, F a, F b) {
  const __m256i q = _mm256_set_m128i(_mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(b.v)),
                                     _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a.v)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), q);
  const __m256i sums =
      _mm256_sad_epu8(_mm256_xor_si256(q, _mm256_set1_epi8(INT8_MIN)), _mm256_setzero_si256());
  const __m128i y = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  return _mm_cvtsi128_si32(_mm_add_epi32(y, _mm_unpackhi_epi64(y, y))) - 32 * 128;
}
MAINSTEM_INLINE void prefetch(const std::byte* p) { _mm_prefetch(p, _MM_HINT_T0); }

}  // namespace
}  // namespace mainstem::kernels::MAINSTEM_ISA
