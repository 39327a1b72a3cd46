#pragma once

// Exact meaning of the quantised block layouts of GGUF files (ggml-common.h), one block at a time.

#include <cstddef>

#include "mainstem/tensor.h"

namespace mainstem {

/// Bytes from the begin of a block to its half-precision scale and, where the format has a second
/// one (a minimum, or the scale of the minimums), to that; -1 where it has none.
struct BlockScales {
  int scale, minimum;
};
/// The table of the formats; an internal Error for a type without blocks.
BlockScales block_scales(DType dtype);

/// Dequantises `blocks` consecutive blocks of a quantised type. Float results are what
/// gguf-py 0.19 gives (scale products rounded in float32); double is exact.
void dequantize_blocks(DType dtype, const std::byte* data, int64_t blocks, float* out);
void dequantize_blocks(DType dtype, const std::byte* data, int64_t blocks, double* out);

}  // namespace mainstem
