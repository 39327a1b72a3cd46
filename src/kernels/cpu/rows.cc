// Row-wise kernels: who computes which rows.

#include "kernels/cpu/drivers.h"

namespace mainstem::kernels {

void norm(const MicroKernels& micro, const GemmInput& input, float* y, int64_t y_stride,
          const Worker& worker) {
  const auto mine = worker.slice(input.rows);
  for (int64_t m = mine.first; m < mine.second; ++m) {
    micro.rows.norm_row(input.x + m * input.stride, input.columns, input.norm, y + m * y_stride,
                        kInputBlock);
  }
}

void softmax(const MicroKernels& micro, const float* x, float* y, int64_t rows, int64_t columns,
             const Worker& worker) {
  const auto mine = worker.slice(rows);
  for (int64_t m = mine.first; m < mine.second; ++m) {
    micro.rows.softmax_row(x + m * columns, y + m * columns, columns);
  }
}

void rotary(const MicroKernels& micro, const RotaryTable& table, int64_t rows, int64_t heads,
            int64_t head_width, const float* x, int64_t x_stride, float* y, int64_t y_stride,
            const Worker& worker) {
  const auto mine = worker.slice(rows * heads);
  const int64_t pairs = table.width / 2;
  for (int64_t i = mine.first; i < mine.second; ++i) {
    const int64_t m = i / heads, offset = i % heads * head_width;
    micro.rows.rotary_head(x + m * x_stride + offset, y + m * y_stride + offset,
                           table.cosine + m * pairs, table.sine + m * pairs, head_width,
                           table.width, table.interleaved);
  }
}

}  // namespace mainstem::kernels
