// The matrix product of one tile of 8-bit inputs and quantised panels. Integer sums are exact and
// the float32 steps are the same for every tile, so the bits of a row do not depend on the others.

#pragma once

#include "kernels/cpu/micro.h"

namespace mainstem::kernels::MAINSTEM_ISA {
namespace {

template <PackFormat format, int R>
void int8_rows(const Int8Tile& t, const std::byte* w, int first_row, float* c) {
  constexpr bool kBytes = format == PackFormat::kQ8_0;
  constexpr bool kHasMin = format == PackFormat::kQ4_1;
  constexpr int64_t kScaleBytes = kHasMin ? 64 : 32;
  constexpr int64_t kBlockBytes = kScaleBytes + (kBytes ? 512 : 256);
  constexpr int32_t kOffset = kBytes ? kByteOffset : format == PackFormat::kQ4_0 ? 8 : 0;
  F sum[R];
  for (int r = 0; r < R; ++r) sum[r] = zero();
  const int8_t* a = t.a + first_row * kQuantBlock;
  const QuantMeta* meta = t.meta + first_row;
  for (int64_t block = 0; block < t.columns / kQuantBlock; ++block) {
    if constexpr (R == 1) {
      for (int64_t i = 0; i < kBlockBytes; i += 64) prefetch(w + 4096 + i);
    }
    const F d = load_f16(w);
    F m = zero();
    if constexpr (kHasMin) m = load_f16(w + 32);
    Bytes q[8];
    for (int g = 0; g < (kBytes ? 8 : 4); ++g) {
      const Bytes raw = load_bytes(w + kScaleBytes + 64 * g);
      if constexpr (kBytes) {
        q[g] = raw;
      } else {
        q[g] = low_nibbles(raw);
        q[g + 4] = high_nibbles(raw);
      }
    }
    // Sums of some rows side by side: one chain of eight dot products waits for itself.
    constexpr int kBeside = R % 4 == 0 ? 4 : R;
#pragma GCC unroll 4
    for (int first = 0; first < R; first += kBeside) {
      Ints dot[kBeside];
#pragma GCC unroll 4
      for (int r = 0; r < kBeside; ++r) {
        const QuantMeta& x = meta[first + r];
        dot[r] = kOffset == 0 ? set1_int(0) : set1_int(kBytes ? x.minus_128_sum : x.minus_8_sum);
      }
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g) {
#pragma GCC unroll 4
        for (int r = 0; r < kBeside; ++r) {
          const int8_t* x = a + (first + r) * kQuantBlock + 4 * g;
          dot[r] = kBytes ? dot_bytes(dot[r], q[g], x) : dot_nibbles(dot[r], q[g], x);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kBeside; ++r) {
        const QuantMeta& x = meta[first + r];
        F& total = sum[first + r];
        total = fma(to_float(dot[r]), mul(d, set1(x.scale)), total);
        if constexpr (kHasMin) total = fma(m, set1(x.scaled_sum), total);
      }
    }
    w += kBlockBytes;
    a += t.a_rows * kQuantBlock;
    meta += t.a_rows;
  }
  for (int r = 0; r < R; ++r) store(c + r * t.c_stride, sum[r]);
}

template <PackFormat format>
void int8_tile_of_format(const Int8Tile& t) {
  for (int panel = 0; panel < t.panels; ++panel) {
    const std::byte* w = t.w + static_cast<size_t>(panel) * t.panel_stride;
    int row = 0;
    const auto c = [&] { return t.c + row * t.c_stride + 16 * panel; };
    if constexpr (kInt8TileRows >= 12) {
      for (; row + 12 <= t.rows; row += 12) int8_rows<format, 12>(t, w, row, c());
    }
    for (; row + 4 <= t.rows; row += 4) int8_rows<format, 4>(t, w, row, c());
    if (row + 2 <= t.rows) {
      int8_rows<format, 2>(t, w, row, c());
      row += 2;
    }
    if (row < t.rows) int8_rows<format, 1>(t, w, row, c());
  }
}

void int8_tile(const Int8Tile& t) {
  switch (t.format) {
    case PackFormat::kPlain:
    case PackFormat::kF32:
    case PackFormat::kF16:
    case PackFormat::kBF16:
      break;
    case PackFormat::kQ4_0:
      return int8_tile_of_format<PackFormat::kQ4_0>(t);
    case PackFormat::kQ4_1:
      return int8_tile_of_format<PackFormat::kQ4_1>(t);
    case PackFormat::kQ8_0:
      return int8_tile_of_format<PackFormat::kQ8_0>(t);
  }
}

}  // namespace

const Int8TileKernels kInt8Tile = {kInt8TileRows, int8_tile};

}  // namespace mainstem::kernels::MAINSTEM_ISA
