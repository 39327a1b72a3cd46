#include "io/dump/strided.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace mainstem {
namespace {

// Elements of the innermost axis, one after the other or each `stride` apart.
void copy_row(const std::byte* from, int64_t stride, size_t count, size_t width, std::byte* to) {
  if (stride == 1) {
    std::memcpy(to, from, count * width);
    return;
  }
  const size_t step = static_cast<size_t>(stride) * width;
  for (size_t i = 0; i < count; ++i) std::memcpy(to + i * width, from + i * step, width);
}

}  // namespace

Tensor gather_strided(std::span<const std::byte> storage, const StridedView& view) {
  Tensor result(view.dtype, view.sizes);
  const auto total = static_cast<size_t>(result.count());
  if (total == 0) return result;
  const auto width = static_cast<size_t>(info(view.dtype).block_bytes);
  std::byte* to = result.data<std::byte>();
  // Axes of one element have strides that mean nothing.
  Shape sizes, strides;
  for (size_t axis = 0; axis < view.sizes.size(); ++axis) {
    if (view.sizes[axis] == 1) continue;
    sizes.push_back(view.sizes[axis]);
    strides.push_back(view.strides[axis]);
  }
  // Axes that lie behind each other are one: a contiguous tensor is a single row.
  for (size_t axis = sizes.size(); axis-- > 1;) {
    if (strides[axis - 1] != strides[axis] * sizes[axis]) continue;
    sizes[axis - 1] *= sizes[axis];
    strides[axis - 1] = strides[axis];
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(axis));
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  const size_t row = sizes.empty() ? 1 : static_cast<size_t>(sizes.back());
  const int64_t row_stride = sizes.empty() ? 1 : strides.back();
  const size_t outer = sizes.empty() ? 0 : sizes.size() - 1;
  std::vector<int64_t> index(outer, 0);
  int64_t at = view.offset;
  for (size_t done = 0; done < total; done += row) {
    copy_row(storage.data() + static_cast<size_t>(at) * width, row_stride, row, width,
             to + done * width);
    for (size_t axis = outer; axis-- > 0;) {
      at += strides[axis];
      if (++index[axis] < sizes[axis]) break;
      at -= strides[axis] * sizes[axis];
      index[axis] = 0;
    }
  }
  if (view.big_endian && width > 1) {
    for (size_t i = 0; i < total; ++i) std::reverse(to + i * width, to + (i + 1) * width);
  }
  return result;
}

}  // namespace mainstem
