#pragma once

// Exact meaning of the quantised block layouts of GGUF files (ggml-common.h), one block at a time.

#include <cstddef>

#include "mainstem/tensor.h"

namespace mainstem {

/// Dequantises `blocks` consecutive blocks of a quantised type. Float results are what
/// gguf-py 0.19 gives (scale products rounded in float32); double is exact.
void dequantize_blocks(DType dtype, const std::byte* data, int64_t blocks, float* out);
void dequantize_blocks(DType dtype, const std::byte* data, int64_t blocks, double* out);

}  // namespace mainstem
