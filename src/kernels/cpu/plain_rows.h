#pragma once

#include "kernels/cpu_kernels.h"

namespace mainstem::kernels {

/// Columns [begin, end) of a row of a kPlain matrix as float32; for quantised types multiples of
/// the block. Allocates only for types that no weight file uses (f64, f8, integers).
void read_plain_row(const WeightMatrix& weights, int64_t row, int64_t begin, int64_t end,
                    float* out);

}  // namespace mainstem::kernels
