#pragma once

// Sixteen float32 lanes as two 256-bit registers; see vec_portable.h for what each function means.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#define MAINSTEM_ISA avx2
#define MAINSTEM_INLINE [[gnu::always_inline]] inline

namespace mainstem::kernels::MAINSTEM_ISA {
namespace {

/// Registers for sums (as F), and the tile heights that follow.
constexpr int kSumVectors = 6, kTileRows = 6, kInt8TileRows = 4;
constexpr int kChainRowsF32 = 6, kChainRowsF64 = 3;

struct F {
  __m256 lo, hi;
};
struct Mask {
  __m256 lo, hi;
};
struct Ints {
  __m256i lo, hi;
};
struct Bytes {
  __m256i lo, hi;
};
struct D {
  __m256d v[4];
};

MAINSTEM_INLINE F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
// Lanes below n of the half that starts at lane `first`.
MAINSTEM_INLINE __m256i first_lanes(int n, int first) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - first),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
MAINSTEM_INLINE F load_part(const float* p, int n) {
  return {_mm256_maskload_ps(p, first_lanes(n, 0)), _mm256_maskload_ps(p + 8, first_lanes(n, 8))};
}
MAINSTEM_INLINE void store(float* p, F a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
MAINSTEM_INLINE void store_part(float* p, F a, int n) {
  _mm256_maskstore_ps(p, first_lanes(n, 0), a.lo);
  _mm256_maskstore_ps(p + 8, first_lanes(n, 8), a.hi);
}
MAINSTEM_INLINE F both_halves(__m256 x) { return {x, x}; }
MAINSTEM_INLINE F set1(float x) { return both_halves(_mm256_set1_ps(x)); }
MAINSTEM_INLINE F zero() { return both_halves(_mm256_setzero_ps()); }
MAINSTEM_INLINE F lane_index() {
  return {_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15)};
}
MAINSTEM_INLINE F add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
MAINSTEM_INLINE F sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
MAINSTEM_INLINE F mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
MAINSTEM_INLINE F div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
MAINSTEM_INLINE F fma(F a, F b, F c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
MAINSTEM_INLINE F fnma(F a, F b, F c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
MAINSTEM_INLINE F product_error(F a, F b, F p) {
  return {_mm256_fmsub_ps(a.lo, b.lo, p.lo), _mm256_fmsub_ps(a.hi, b.hi, p.hi)};
}
MAINSTEM_INLINE F max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
MAINSTEM_INLINE F min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
MAINSTEM_INLINE F abs(F a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
MAINSTEM_INLINE F copy_sign(F magnitude, F sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_and_ps(bit, sign.lo), _mm256_andnot_ps(bit, magnitude.lo)),
          _mm256_or_ps(_mm256_and_ps(bit, sign.hi), _mm256_andnot_ps(bit, magnitude.hi))};
}
MAINSTEM_INLINE F round(F a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kNearest), _mm256_round_ps(a.hi, kNearest)};
}
MAINSTEM_INLINE __m256 power_of_two(__m256 n) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
MAINSTEM_INLINE F power_of_two(F n) { return {power_of_two(n.lo), power_of_two(n.hi)}; }
MAINSTEM_INLINE F scale_exp2(F a, F n) {
  const F half = round(mul(n, set1(0.5f)));
  return mul(mul(a, power_of_two(half)), power_of_two(sub(n, half)));
}
MAINSTEM_INLINE Mask less(F a, F b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
MAINSTEM_INLINE Mask both(Mask a, Mask b) {
  return {_mm256_and_ps(a.lo, b.lo), _mm256_and_ps(a.hi, b.hi)};
}
MAINSTEM_INLINE F select(Mask m, F yes, F no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}
MAINSTEM_INLINE float first_lane(F a) { return _mm256_cvtss_f32(a.lo); }
MAINSTEM_INLINE float horizontal_sum(F a) {
  const __m256 x = _mm256_add_ps(a.lo, a.hi);
  const __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 z = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}
MAINSTEM_INLINE float horizontal_max(F a) {
  const __m256 x = _mm256_max_ps(a.lo, a.hi);
  const __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 z = _mm_max_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}
MAINSTEM_INLINE float largest_magnitude(F a, F b) {
  const F c = abs(a), d = abs(b);
  const __m256i x =
      _mm256_max_epi32(_mm256_max_epi32(_mm256_castps_si256(c.lo), _mm256_castps_si256(c.hi)),
                       _mm256_max_epi32(_mm256_castps_si256(d.lo), _mm256_castps_si256(d.hi)));
  const __m128i y = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  const __m128i z = _mm_max_epi32(y, _mm_unpackhi_epi64(y, y));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(z, _mm_shuffle_epi32(z, 0x55))));
}

MAINSTEM_INLINE F swap_pairs(F a) {
  return {_mm256_permute_ps(a.lo, 0xB1), _mm256_permute_ps(a.hi, 0xB1)};
}
MAINSTEM_INLINE F load_doubled(const float* p) {
  const __m256 x = _mm256_loadu_ps(p);
  return {_mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
          _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))};
}
MAINSTEM_INLINE F negate_even(F a) {
  const __m256 sign = _mm256_setr_ps(-0.0f, 0, -0.0f, 0, -0.0f, 0, -0.0f, 0);
  return {_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
}

// ---- double accumulators
MAINSTEM_INLINE D dzero() {
  const __m256d z = _mm256_setzero_pd();
  return {{z, z, z, z}};
}
MAINSTEM_INLINE D to_double(F a) {
  return {{_mm256_cvtps_pd(_mm256_castps256_ps128(a.lo)),
           _mm256_cvtps_pd(_mm256_extractf128_ps(a.lo, 1)),
           _mm256_cvtps_pd(_mm256_castps256_ps128(a.hi)),
           _mm256_cvtps_pd(_mm256_extractf128_ps(a.hi, 1))}};
}
MAINSTEM_INLINE D dadd(F a, D sum) {
  const D x = to_double(a);
  for (int i = 0; i < 4; ++i) sum.v[i] = _mm256_add_pd(x.v[i], sum.v[i]);
  return sum;
}
MAINSTEM_INLINE D dadd_square(F a, D sum) {
  const D x = to_double(a);
  for (int i = 0; i < 4; ++i) sum.v[i] = _mm256_fmadd_pd(x.v[i], x.v[i], sum.v[i]);
  return sum;
}
MAINSTEM_INLINE D dload(const double* p) {
  return {{_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4), _mm256_loadu_pd(p + 8),
           _mm256_loadu_pd(p + 12)}};
}
MAINSTEM_INLINE void dstore(double* p, D a) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) _mm256_storeu_pd(p + 4 * i, a.v[i]);
}
MAINSTEM_INLINE D dadd(D a, D b) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) a.v[i] = _mm256_add_pd(a.v[i], b.v[i]);
  return a;
}
MAINSTEM_INLINE D dfma(double x, D b, D c) {
  const __m256d a = _mm256_set1_pd(x);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) c.v[i] = _mm256_fmadd_pd(a, b.v[i], c.v[i]);
  return c;
}
MAINSTEM_INLINE double horizontal_sum(D a) {
  const __m256d x = _mm256_add_pd(_mm256_add_pd(a.v[0], a.v[2]), _mm256_add_pd(a.v[1], a.v[3]));
  const __m128d y = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_add_sd(y, _mm_unpackhi_pd(y, y)));
}

// ---- small formats
MAINSTEM_INLINE __m128i load_128(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
MAINSTEM_INLINE F load_f16(const std::byte* p) {
  return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 16))};
}
MAINSTEM_INLINE __m256 widen_bf16(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
MAINSTEM_INLINE F load_bf16(const std::byte* p) {
  return {widen_bf16(load_128(p)), widen_bf16(load_128(p + 16))};
}

// ---- bytes: sixteen rows of four
MAINSTEM_INLINE Bytes load_bytes(const std::byte* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
MAINSTEM_INLINE Bytes low_nibbles(Bytes a) {
  const __m256i m = _mm256_set1_epi8(15);
  return {_mm256_and_si256(a.lo, m), _mm256_and_si256(a.hi, m)};
}
MAINSTEM_INLINE Bytes high_nibbles(Bytes a) {
  return low_nibbles({_mm256_srli_epi16(a.lo, 4), _mm256_srli_epi16(a.hi, 4)});
}
// i is a constant once loops are unrolled: shifts by an immediate.
MAINSTEM_INLINE __m256 byte_of_row(__m256i a, int i) {
  const __m256i shifted = i == 0   ? a
                          : i == 1 ? _mm256_srli_epi32(a, 8)
                          : i == 2 ? _mm256_srli_epi32(a, 16)
                                   : _mm256_srli_epi32(a, 24);
  return _mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(255)));
}
MAINSTEM_INLINE F byte_of_row(Bytes a, int i) {
  return {byte_of_row(a.lo, i), byte_of_row(a.hi, i)};
}
MAINSTEM_INLINE Ints set1_int(int32_t x) {
  const __m256i v = _mm256_set1_epi32(x);
  return {v, v};
}
MAINSTEM_INLINE F to_float(Ints a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
MAINSTEM_INLINE __m256i broadcast4(const int8_t* p) {
  int32_t x;
  std::memcpy(&x, p, 4);
  return _mm256_set1_epi32(x);
}
constexpr int kByteOffset = 0;
MAINSTEM_INLINE __m256i dot_pairs(__m256i sum, __m256i w, __m256i a) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, a), _mm256_set1_epi16(1)));
}
MAINSTEM_INLINE Ints dot_nibbles(Ints sum, Bytes w, const int8_t* a) {
  const __m256i x = broadcast4(a);
  return {dot_pairs(sum.lo, w.lo, x), dot_pairs(sum.hi, w.hi, x)};
}
// |w| times a with w's sign: 128 * 127 * 2 still fits the 16 bits of maddubs.
MAINSTEM_INLINE __m256i dot_signed(__m256i sum, __m256i w, __m256i a) {
  const __m256i s = _mm256_xor_si256(w, _mm256_set1_epi8(INT8_MIN));
  return dot_pairs(sum, _mm256_abs_epi8(s), _mm256_sign_epi8(a, s));
}
MAINSTEM_INLINE Ints dot_bytes(Ints sum, Bytes w, const int8_t* a) {
  const __m256i x = broadcast4(a);
  return {dot_signed(sum.lo, w.lo, x), dot_signed(sum.hi, w.hi, x)};
}

MAINSTEM_INLINE __m128i to_int8(F a) {
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)), 0xD8);
  return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}
MAINSTEM_INLINE int32_t store_int8(int8_t* p, F a, F b) {
  const __m256i q = _mm256_set_m128i(to_int8(b), to_int8(a));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), q);
  const __m256i sums =
      _mm256_sad_epu8(_mm256_xor_si256(q, _mm256_set1_epi8(INT8_MIN)), _mm256_setzero_si256());
  const __m128i y = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  return _mm_cvtsi128_si32(_mm_add_epi32(y, _mm_unpackhi_epi64(y, y))) - 32 * 128;
}
MAINSTEM_INLINE void prefetch(const std::byte* p) { _mm_prefetch(p, _MM_HINT_T0); }

}  // namespace
}  // namespace mainstem::kernels::MAINSTEM_ISA
