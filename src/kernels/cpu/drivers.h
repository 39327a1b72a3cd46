#pragma once

// The kernels of the table, written once over the functions of an instruction set.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/micro.h"
#include "kernels/cpu_kernels.h"

namespace mainstem::kernels {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t unit) { return ceil_div(a, unit) * unit; }

size_t packed_input_bytes(int64_t rows, int64_t columns, InputPrecision precision);
void pack_input(const MicroKernels& micro, const GemmInput& input, InputPrecision precision,
                std::byte* packed, const Worker& worker);
size_t gemm_scratch_bytes(int64_t rows, int64_t columns);
void gemm(const MicroKernels& micro, const std::byte* packed, int64_t rows, int64_t columns,
          InputPrecision precision, std::span<const GemmPart> parts, std::byte* scratch,
          const Worker& worker);

size_t attention_scratch_bytes(const AttentionArgs& args, int workers);
void attention(const MicroKernels& micro, const AttentionArgs& args, const Worker& worker);

void norm(const MicroKernels& micro, const GemmInput& input, float* y, int64_t y_stride,
          const Worker& worker);
void softmax(const MicroKernels& micro, const float* x, float* y, int64_t rows, int64_t columns,
             const Worker& worker);
void rotary(const MicroKernels& micro, const RotaryTable& table, int64_t rows, int64_t heads,
            int64_t head_width, const float* x, int64_t x_stride, float* y, int64_t y_stride,
            const Worker& worker);

/// Inputs of a product, packed: tiles of tile_rows rows, each [block of 64 columns][row][64];
/// then the same rows as 8-bit numbers, [block of 32][row][32], and their scales [block][row].
struct PackedInput {
  PackedInput(std::byte* packed, int64_t row_count, int64_t column_count)
      : rows(row_count),
        columns(column_count),
        blocks(ceil_div(columns, kInputBlock)),
        values(reinterpret_cast<float*>(packed)),
        q(reinterpret_cast<int8_t*>(values + rows * blocks * kInputBlock)),
        meta(reinterpret_cast<QuantMeta*>(q + round_up(rows * columns, 64))) {}

  /// First row and height of the tile that holds a row.
  struct Tile {
    int64_t begin, height;
  };
  Tile tile_of(int64_t row, int tile_rows) const {
    const int64_t begin = row / tile_rows * tile_rows;
    return {begin, std::min<int64_t>(tile_rows, rows - begin)};
  }
  float* tile_values(int64_t first_row) const { return values + first_row * blocks * kInputBlock; }
  int8_t* tile_q(int64_t first_row) const { return q + first_row * columns; }
  QuantMeta* tile_meta(int64_t first_row) const {
    return meta + first_row * (columns / kQuantBlock);
  }

  int64_t rows, columns, blocks;
  float* values;
  int8_t* q;
  QuantMeta* meta;
};

/// Whether 8-bit inputs are made: quantised weights exist only for whole blocks.
inline bool packs_int8(InputPrecision precision, int64_t columns) {
  return precision == InputPrecision::kInt8 && columns % kQuantBlock == 0;
}

}  // namespace mainstem::kernels
