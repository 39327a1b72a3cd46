// Attention on a tile of query rows: scores, running softmax, weighted values.

#pragma once

#include "kernels/cpu/micro.h"

namespace mainstem::kernels::MAINSTEM_ISA {
namespace {

/// Few rows: decoding, where keys and values come from memory in runs that are too short for the
/// processor to foresee.
constexpr int kPrefetchRows = 4;
MAINSTEM_INLINE void prefetch_floats(const float* p) {
  prefetch(reinterpret_cast<const std::byte*>(p));
}

template <int R, int P>
void score_blocks(const AttentionTile& t, int64_t block, float* scores) {
  F sum[R][P];
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < P; ++p) sum[r][p] = zero();
  }
  const float* keys = t.keys + block * t.block_stride;
  for (int64_t e = 0; e < t.head_width; ++e, keys += kKeyBlock) {
    F column[P];
    for (int p = 0; p < P; ++p) column[p] = load(keys + p * t.block_stride);
    if constexpr (R <= kPrefetchRows) {
      for (int p = 0; p < P; ++p) prefetch_floats(keys + (P + p) * t.block_stride);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F x = set1(t.q[r * t.q_stride + e]);
      for (int p = 0; p < P; ++p) sum[r][p] = fma(x, column[p], sum[r][p]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < P; ++p) store(scores + r * t.score_stride + 16 * p, sum[r][p]);
  }
}

template <int R>
void score_rows(const AttentionTile& t, int64_t begin, int64_t end) {
  constexpr int kBlocks = kSumVectors / R >= 4 ? 4 : kSumVectors / R >= 2 ? 2 : 1;
  int64_t block = begin / kKeyBlock;
  const int64_t last = end / kKeyBlock;
  float* scores = t.scores;
  for (; block + kBlocks <= last; block += kBlocks, scores += 16 * kBlocks) {
    score_blocks<R, kBlocks>(t, block, scores);
  }
  if constexpr (kBlocks > 1) {
    for (; block < last; ++block, scores += 16) score_blocks<R, 1>(t, block, scores);
  }
}

void attention_scores(const AttentionTile& t, int64_t begin, int64_t end) {
  switch (t.rows) {
    case 1:
      return score_rows<1>(t, begin, end);
    case 2:
      return score_rows<2>(t, begin, end);
    case 3:
      return score_rows<3>(t, begin, end);
    case 4:
      return score_rows<4>(t, begin, end);
    case 5:
      return score_rows<5>(t, begin, end);
    default:
      return score_rows<6>(t, begin, end);
  }
}

void softmax_chunk(const SoftmaxChunk& s) {
  const F lowest = set1(-__builtin_inff());
  const F lo = set1(static_cast<float>(s.lo)), hi = set1(static_cast<float>(s.hi));
  const F cap = set1(s.soft_cap), slope = set1(s.slope);
  F top = lowest;
  for (int64_t i = s.lo / 16 * 16; i < s.hi; i += 16) {
    F v = load(s.scores + i);
    if (s.soft_cap != 0) v = mul(cap, tanh(div(v, cap)));
    const F index = add(lane_index(), set1(static_cast<float>(i)));
    if (s.slope != 0) v = fma(slope, add(index, set1(s.first_position)), v);
    // Lanes outside the range may hold anything.
    if (i < s.lo || i + 16 > s.hi) {
      const Mask inside = both(less(sub(lo, set1(1.0f)), index), less(index, hi));
      v = select(inside, v, lowest);
    }
    store(s.scores + i, v);
    top = max(v, top);
  }
  const float highest = horizontal_max(top);
  float shift = *s.max;
  if (highest > shift) {
    const float old = shift;
    shift = highest;
    if (old > -__builtin_inff()) {
      const F correction = exp(sub(set1(old), set1(shift)));
      *s.sum *= first_lane(correction);
      for (int64_t e = 0; e < s.out_width; e += 16) {
        store(s.out + e, mul(load(s.out + e), correction));
      }
    }
    *s.max = shift;
  }
  // All scores -infinity so far: any finite shift gives weights of 0.
  const F minus = set1(shift > -__builtin_inff() ? shift : 0.0f);
  F sum = zero();
  for (int64_t i = s.lo / 16 * 16; i < s.hi; i += 16) {
    const F p = exp(sub(load(s.scores + i), minus));
    store(s.scores + i, p);
    sum = add(sum, p);
  }
  *s.sum += horizontal_sum(sum);
}

template <int R, int P, bool whole>
void value_columns(const AttentionTile& t, int64_t e, int64_t first_key, int64_t begin,
                   int64_t end) {
  F sum[R][P];
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < P; ++p) sum[r][p] = load(t.out + r * t.out_stride + e + 16 * p);
  }
  const int rest = whole ? 16 : static_cast<int>(t.head_width - e);
  for (int64_t key = begin; key < end;) {
    const int64_t block = key / kKeyBlock;
    const int64_t stop = (block + 1) * kKeyBlock < end ? (block + 1) * kKeyBlock : end;
    const float* value = t.values + block * t.block_stride + key % kKeyBlock * t.head_width + e;
    for (; key < stop; ++key, value += t.head_width) {
      F row[P];
      for (int p = 0; p < P; ++p) row[p] = whole ? load(value + 16 * p) : load_part(value, rest);
      if constexpr (R <= kPrefetchRows) {
        for (int p = 0; p < P; ++p) prefetch_floats(value + t.block_stride + 16 * p);
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F weight = set1(t.scores[r * t.score_stride + key - first_key]);
        for (int p = 0; p < P; ++p) sum[r][p] = fma(weight, row[p], sum[r][p]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < P; ++p) store(t.out + r * t.out_stride + e + 16 * p, sum[r][p]);
  }
}

template <int R>
void value_rows(const AttentionTile& t, int64_t first_key, int64_t begin, int64_t end) {
  constexpr int kPanels = kSumVectors / R >= 4 ? 4 : kSumVectors / R >= 2 ? 2 : 1;
  int64_t e = 0;
  for (; e + 16 * kPanels <= t.head_width; e += 16 * kPanels) {
    value_columns<R, kPanels, true>(t, e, first_key, begin, end);
  }
  if constexpr (kPanels > 1) {
    for (; e + 16 <= t.head_width; e += 16) {
      value_columns<R, 1, true>(t, e, first_key, begin, end);
    }
  }
  if (e < t.head_width) value_columns<R, 1, false>(t, e, first_key, begin, end);
}

void attention_values(const AttentionTile& t, int64_t first_key, int64_t begin, int64_t end) {
  switch (t.rows) {
    case 1:
      return value_rows<1>(t, first_key, begin, end);
    case 2:
      return value_rows<2>(t, first_key, begin, end);
    case 3:
      return value_rows<3>(t, first_key, begin, end);
    case 4:
      return value_rows<4>(t, first_key, begin, end);
    case 5:
      return value_rows<5>(t, first_key, begin, end);
    default:
      return value_rows<6>(t, first_key, begin, end);
  }
}

}  // namespace

const AttentionKernels kAttention = {attention_scores, softmax_chunk, attention_values};

}  // namespace mainstem::kernels::MAINSTEM_ISA
