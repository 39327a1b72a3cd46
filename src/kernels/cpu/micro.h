#pragma once

// What one instruction set must provide: functions on single tiles and rows. Everything around
// them (slicing, blocking, packing order) is compiled once, without special flags.
//
// Files of an instruction set keep to plain data and C functions: a std:: template instantiated
// there could replace the copy that runs on every processor.

#include <cstddef>
#include <cstdint>

#include "kernels/cpu_kernels.h"

namespace mainstem::kernels {

/// Packed float inputs of a tile: [block of 64 columns][row][64]; the last block may be shorter
/// but has the same stride.
inline constexpr int64_t kInputBlock = 64;
/// Columns that share a scale in 8-bit inputs and quantised weights.
inline constexpr int64_t kQuantBlock = 32;
inline constexpr int kMaxTileRows = 6;
inline constexpr int kMaxInt8TileRows = 12;
inline constexpr int kMaxTilePanels = 4;
/// Up to this many rows weights are widened in registers; beyond, panels are expanded first.
inline constexpr int64_t kWidenInRegistersRows = 4;

/// c[rows][panels * 16] (+)= inputs times panels. Every element is one chain of multiply-adds in
/// column order, so its bits do not depend on how tiles are cut.
struct FloatTile {
  int rows = 0, panels = 0;
  PackFormat format = PackFormat::kF32;
  const float* a = nullptr;      ///< at the first column, which starts an input block
  int64_t a_block_stride = 0;    ///< floats between input blocks: rows of the packed tile * 64
  const std::byte* w = nullptr;  ///< at the first column
  size_t panel_stride = 0;       ///< bytes
  int64_t columns = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  bool accumulate = false;
};

/// Scale of 32 8-bit inputs and what the correction terms need of their sum.
struct QuantMeta {
  float scale;
  float scaled_sum;  ///< scale * sum
  int32_t minus_8_sum;
  int32_t minus_128_sum;
};

/// The same from 8-bit inputs [block of 32][row][32] and quantised panels.
struct Int8Tile {
  int rows = 0, panels = 0;
  PackFormat format = PackFormat::kQ8_0;
  const int8_t* a = nullptr;
  const QuantMeta* meta = nullptr;  ///< [block][row]
  int64_t a_rows = 0;               ///< rows of the packed tile
  const std::byte* w = nullptr;
  size_t panel_stride = 0;
  int64_t columns = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
};

/// A block of query rows against a run of keys of one head.
struct AttentionTile {
  int rows = 0;  ///< 1 .. kMaxTileRows
  int64_t head_width = 0;
  int64_t block_stride = 0;     ///< floats between key blocks of this head (same for values)
  const float* keys = nullptr;  ///< of this head, block 0
  const float* values = nullptr;
  const float* q = nullptr;  ///< [rows][q_stride], scaled
  int64_t q_stride = 0;
  float* scores = nullptr;  ///< [rows][score_stride]
  int64_t score_stride = 0;
  float* out = nullptr;  ///< [rows][out_stride], padded to whole vectors
  int64_t out_stride = 0;
};

/// One row of a chunk of scores: `lo`, `hi` are the chunk's columns the row may see.
struct SoftmaxChunk {
  float* scores = nullptr;
  int64_t count = 0;  ///< columns of the chunk, a multiple of 16
  int64_t lo = 0, hi = 0;
  float soft_cap = 0;
  float slope = 0;
  float first_position = 0;  ///< of column 0
  float* out = nullptr;      ///< rescaled when the maximum grows
  int64_t out_width = 0;     ///< multiple of 16
  float* max = nullptr;
  float* sum = nullptr;
};

/// c[rows][16] += one run of places of a product of chains: x [place][rows], w [place][16]. The
/// run's sum is made on its own before it is added.
template <typename T>
struct ChainTile {
  int rows = 0;  ///< 1 up to the tile height
  int64_t places = 0;
  const T* x = nullptr;
  const T* w = nullptr;
  T* c = nullptr;
  int64_t c_stride = 0;
};

struct ChainKernels {
  int rows_f32, rows_f64;  ///< tile heights
  void (*f32)(const ChainTile<float>& tile);
  void (*f64)(const ChainTile<double>& tile);
};

struct FloatTileKernels {
  int tile_rows;  ///< of a packed float tile
  void (*float_tile)(const FloatTile& tile);
  /// Columns [begin, end) of one panel as out[end - begin][16] float32, exactly.
  /// For quantised formats both are multiples of 32.
  void (*expand_panel)(PackFormat format, const std::byte* panel, int64_t begin, int64_t end,
                       float* out);
  /// out[k][16] from 16 float32 rows of `count` columns.
  void (*transpose_rows)(const float* rows, int64_t stride, int64_t count, float* out);
};

struct Int8TileKernels {
  int tile_rows;  ///< of a packed 8-bit tile
  void (*int8_tile)(const Int8Tile& tile);
};

struct RowKernels {
  /// y = norm(x); column k goes to y[(k / 64) * block_stride + k % 64]. y = x is allowed when
  /// block_stride is 64. Without norm: a copy.
  void (*norm_row)(const float* x, int64_t columns, const NormPrologue* norm, float* y,
                   int64_t block_stride);
  /// 32 columns at a time: block b of x at (b / 2) * block_stride + (b % 2) * 32 to
  /// q + b * q_stride and meta + b * meta_stride.
  void (*quantize_row)(const float* x, int64_t columns, int64_t block_stride, int8_t* q,
                       int64_t q_stride, QuantMeta* meta, int64_t meta_stride);
  void (*activation)(Activation kind, const float* x, float* y, int64_t count);
  void (*multiply)(const float* a, const float* b, float* y, int64_t count);
  void (*add)(const float* a, const float* b, float* y, int64_t count);
  void (*scale)(float factor, const float* x, float* y, int64_t count);
  void (*soft_cap)(float cap, const float* x, float* y, int64_t count);
  /// y = activation(x) * value
  void (*gate)(Activation kind, const float* x, const float* value, float* y, int64_t count);
  void (*softmax_row)(const float* x, float* y, int64_t count);
  /// One head of one row; cosine and sine of width / 2 pairs.
  void (*rotary_head)(const float* x, float* y, const float* cosine, const float* sine,
                      int64_t head_width, int64_t width, bool interleaved);
};

struct AttentionKernels {
  /// Scores of keys [begin, end) (multiples of 16) into columns 0 ...
  void (*scores)(const AttentionTile& tile, int64_t begin, int64_t end);
  void (*softmax)(const SoftmaxChunk& chunk);
  /// out += p values over keys [begin, end); p of a key is column key - first_key.
  void (*values)(const AttentionTile& tile, int64_t first_key, int64_t begin, int64_t end);
};

/// Peaks of one thread: each runs `rounds` rounds and says how many operations that were.
struct LimitKernels {
  double (*f32)(int64_t rounds);
  double (*f64)(int64_t rounds);
  double (*int8)(int64_t rounds);  ///< null where there is none
  /// Reads all bytes (a multiple of 256) and returns something that depends on them.
  uint64_t (*read)(const std::byte* data, int64_t bytes);
};

struct MicroKernels {
  const FloatTileKernels& tile;
  const Int8TileKernels& int8;
  const RowKernels& rows;
  const AttentionKernels& attention;
  const ChainKernels& chain;
  const LimitKernels& limits;
};

namespace portable {
extern const FloatTileKernels kFloatTile;
extern const Int8TileKernels kInt8Tile;
extern const RowKernels kRows;
extern const AttentionKernels kAttention;
extern const ChainKernels kChain;
extern const LimitKernels kLimits;
}  // namespace portable
#if defined(__x86_64__)
namespace avx2 {
extern const FloatTileKernels kFloatTile;
extern const Int8TileKernels kInt8Tile;
extern const RowKernels kRows;
extern const AttentionKernels kAttention;
extern const ChainKernels kChain;
extern const LimitKernels kLimits;
}  // namespace avx2
namespace avx512 {
extern const FloatTileKernels kFloatTile;
extern const Int8TileKernels kInt8Tile;
extern const RowKernels kRows;
extern const AttentionKernels kAttention;
extern const ChainKernels kChain;
extern const LimitKernels kLimits;
}  // namespace avx512
namespace avx512vnni {
extern const Int8TileKernels kInt8Tile;
extern const LimitKernels kLimits;
}  // namespace avx512vnni
#endif

/// The functions of a level.
const MicroKernels& micro_kernels(Isa isa);

}  // namespace mainstem::kernels
