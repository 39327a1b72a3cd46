// The float32 matrix product of one tile, and panels as float32.

#pragma once

#include "kernels/cpu/micro.h"

namespace mainstem::kernels::MAINSTEM_ISA {
namespace {

constexpr int64_t kNibbleBytes = 256, kByteBytes = 512;  // of 16 rows and 32 columns

/// One panel, read column after column.
template <PackFormat format>
struct PanelReader;

template <>
struct PanelReader<PackFormat::kF32> {
  static constexpr int64_t kColumnBytes = 64;
  MAINSTEM_INLINE static F column(const std::byte* p) {
    return load(reinterpret_cast<const float*>(p));
  }
};
template <>
struct PanelReader<PackFormat::kF16> {
  static constexpr int64_t kColumnBytes = 32;
  MAINSTEM_INLINE static F column(const std::byte* p) { return load_f16(p); }
};
template <>
struct PanelReader<PackFormat::kBF16> {
  static constexpr int64_t kColumnBytes = 32;
  MAINSTEM_INLINE static F column(const std::byte* p) { return load_bf16(p); }
};

/// Quantised: d q + m, where d q is exact in float32 (11 + 8 bits), so one rounding at most.
template <PackFormat format>
struct BlockReader {
  static constexpr bool kHasMin = format == PackFormat::kQ4_1;
  static constexpr int64_t kScaleBytes = kHasMin ? 64 : 32;
  static constexpr int64_t kBlockBytes =
      kScaleBytes + (format == PackFormat::kQ8_0 ? kByteBytes : kNibbleBytes);

  F d, m;
  MAINSTEM_INLINE void open(const std::byte* block) {
    d = load_f16(block);
    if constexpr (kHasMin) m = load_f16(block + 32);
  }
  /// Columns 4 group ... of the block.
  MAINSTEM_INLINE static Bytes group(const std::byte* block, int group) {
    const std::byte* q = block + kScaleBytes;
    if constexpr (format == PackFormat::kQ8_0) {
      return load_bytes(q + 64 * group);
    } else {
      const Bytes both_halves_of_bytes = load_bytes(q + 64 * (group % 4));
      return group < 4 ? low_nibbles(both_halves_of_bytes) : high_nibbles(both_halves_of_bytes);
    }
  }
  MAINSTEM_INLINE F value(Bytes q, int column_in_group) const {
    const F x = byte_of_row(q, column_in_group);
    if constexpr (kHasMin) return fma(d, x, m);
    constexpr float kZero = format == PackFormat::kQ8_0 ? 128.0f : 8.0f;
    return mul(d, sub(x, set1(kZero)));
  }
};

template <int R, int P>
MAINSTEM_INLINE void load_tile(const FloatTile& t, float* c, F (&sum)[R][P]) {
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < P; ++p) {
      sum[r][p] = t.accumulate ? load(c + r * t.c_stride + 16 * p) : zero();
    }
  }
}
template <int R, int P>
MAINSTEM_INLINE void store_tile(const FloatTile& t, float* c, const F (&sum)[R][P]) {
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < P; ++p) store(c + r * t.c_stride + 16 * p, sum[r][p]);
  }
}

template <PackFormat format, int R, int P>
void plain_tile(const FloatTile& t, const std::byte* w, float* c) {
  using Reader = PanelReader<format>;
  F sum[R][P];
  load_tile<R, P>(t, c, sum);
  const float* a = t.a;
  for (int64_t left = t.columns; left > 0; left -= kInputBlock) {
    const int64_t count = left < kInputBlock ? left : kInputBlock;
    for (int64_t k = 0; k < count; ++k) {
      F column[P];
      for (int p = 0; p < P; ++p) {
        column[p] = Reader::column(w + static_cast<size_t>(p) * t.panel_stride);
      }
      if constexpr (R == 1) {
        for (int p = 0; p < P; ++p) {
          prefetch(w + static_cast<size_t>(p) * t.panel_stride + 2048);
        }
      }
      w += Reader::kColumnBytes;
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F x = set1(a[r * kInputBlock + k]);
        for (int p = 0; p < P; ++p) sum[r][p] = fma(x, column[p], sum[r][p]);
      }
    }
    a += t.a_block_stride;
  }
  store_tile<R, P>(t, c, sum);
}

template <PackFormat format, int R, int P>
void block_tile(const FloatTile& t, const std::byte* w, float* c) {
  using Reader = BlockReader<format>;
  F sum[R][P];
  load_tile<R, P>(t, c, sum);
  for (int64_t block = 0; block < t.columns / kQuantBlock; ++block) {
    const float* a = t.a + block / 2 * t.a_block_stride + block % 2 * kQuantBlock;
    Reader reader[P];
    for (int p = 0; p < P; ++p) reader[p].open(w + static_cast<size_t>(p) * t.panel_stride);
    for (int group = 0; group < 8; ++group) {
      Bytes q[P];
      for (int p = 0; p < P; ++p) {
        const std::byte* at = w + static_cast<size_t>(p) * t.panel_stride;
        q[p] = Reader::group(at, group);
        prefetch(at + 2048 + 64 * group);
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        F column[P];
        for (int p = 0; p < P; ++p) column[p] = reader[p].value(q[p], i);
        for (int r = 0; r < R; ++r) {
          const F x = set1(a[r * kInputBlock + 4 * group + i]);
          for (int p = 0; p < P; ++p) sum[r][p] = fma(x, column[p], sum[r][p]);
        }
      }
    }
    w += Reader::kBlockBytes;
  }
  store_tile<R, P>(t, c, sum);
}

template <PackFormat format, int R, int P>
MAINSTEM_INLINE void one_tile(const FloatTile& t, const std::byte* w, float* c) {
  if constexpr (format == PackFormat::kQ4_0 || format == PackFormat::kQ4_1 ||
                format == PackFormat::kQ8_0) {
    block_tile<format, R, P>(t, w, c);
  } else {
    plain_tile<format, R, P>(t, w, c);
  }
}

/// Registers for sums: panels that R rows leave room for.
constexpr int panels_for(int rows) {
  const int n = kSumVectors / rows;
  return n >= 4 ? 4 : n >= 2 ? 2 : 1;
}

template <PackFormat format, int R>
void tile_of_rows(const FloatTile& t) {
  constexpr int kPanels = panels_for(R);
  int panel = 0;
  const auto w = [&] { return t.w + static_cast<size_t>(panel) * t.panel_stride; };
  for (; panel + kPanels <= t.panels; panel += kPanels) {
    one_tile<format, R, kPanels>(t, w(), t.c + 16 * panel);
  }
  if constexpr (kPanels > 2) {
    for (; panel + 2 <= t.panels; panel += 2) one_tile<format, R, 2>(t, w(), t.c + 16 * panel);
  }
  if constexpr (kPanels > 1) {
    for (; panel < t.panels; ++panel) one_tile<format, R, 1>(t, w(), t.c + 16 * panel);
  }
}

template <PackFormat format>
void tile_of_format(const FloatTile& t) {
  switch (t.rows) {
    case 1:
      return tile_of_rows<format, 1>(t);
    case 2:
      return tile_of_rows<format, 2>(t);
    case 3:
      return tile_of_rows<format, 3>(t);
    case 4:
      return tile_of_rows<format, 4>(t);
    default:
      break;
  }
  if constexpr (format == PackFormat::kF32 && kTileRows > 4) {
    if (t.rows == 5) return tile_of_rows<format, 5>(t);
    return tile_of_rows<format, 6>(t);
  }
}

void float_tile(const FloatTile& t) {
  switch (t.format) {
    case PackFormat::kPlain:
      break;
    case PackFormat::kF32:
      return tile_of_format<PackFormat::kF32>(t);
    case PackFormat::kF16:
      return tile_of_format<PackFormat::kF16>(t);
    case PackFormat::kBF16:
      return tile_of_format<PackFormat::kBF16>(t);
    case PackFormat::kQ4_0:
      return tile_of_format<PackFormat::kQ4_0>(t);
    case PackFormat::kQ4_1:
      return tile_of_format<PackFormat::kQ4_1>(t);
    case PackFormat::kQ8_0:
      return tile_of_format<PackFormat::kQ8_0>(t);
  }
}

template <PackFormat format>
void expand_plain(const std::byte* panel, int64_t begin, int64_t end, float* out) {
  using Reader = PanelReader<format>;
  for (int64_t k = begin; k < end; ++k, out += 16) {
    store(out, Reader::column(panel + k * Reader::kColumnBytes));
  }
}

template <PackFormat format>
void expand_blocks(const std::byte* panel, int64_t begin, int64_t end, float* out) {
  using Reader = BlockReader<format>;
  for (int64_t block = begin / kQuantBlock; block < end / kQuantBlock; ++block) {
    const std::byte* at = panel + block * Reader::kBlockBytes;
    Reader reader;
    reader.open(at);
    for (int group = 0; group < 8; ++group) {
      const Bytes q = Reader::group(at, group);
      for (int i = 0; i < 4; ++i, out += 16) store(out, reader.value(q, i));
    }
  }
}

void expand_panel(PackFormat format, const std::byte* panel, int64_t begin, int64_t end,
                  float* out) {
  switch (format) {
    case PackFormat::kPlain:
      break;
    case PackFormat::kF32:
      return expand_plain<PackFormat::kF32>(panel, begin, end, out);
    case PackFormat::kF16:
      return expand_plain<PackFormat::kF16>(panel, begin, end, out);
    case PackFormat::kBF16:
      return expand_plain<PackFormat::kBF16>(panel, begin, end, out);
    case PackFormat::kQ4_0:
      return expand_blocks<PackFormat::kQ4_0>(panel, begin, end, out);
    case PackFormat::kQ4_1:
      return expand_blocks<PackFormat::kQ4_1>(panel, begin, end, out);
    case PackFormat::kQ8_0:
      return expand_blocks<PackFormat::kQ8_0>(panel, begin, end, out);
  }
}

/// 16 rows of `count` columns into out[column][16].
void transpose_rows(const float* rows, int64_t stride, int64_t count, float* out) {
  for (int64_t k = 0; k < count; ++k) {
    for (int r = 0; r < 16; ++r) out[16 * k + r] = rows[r * stride + k];
  }
}

}  // namespace

const FloatTileKernels kFloatTile = {kTileRows, float_tile, expand_panel, transpose_rows};

}  // namespace mainstem::kernels::MAINSTEM_ISA
