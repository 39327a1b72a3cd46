#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mainstem/tensor.h"

namespace mainstem {

/// A view of a storage as PyTorch describes it; offset and strides in elements, from 0 on.
struct StridedView {
  DType dtype = DType::kF32;
  const Shape& sizes;
  const Shape& strides;
  int64_t offset = 0;
  bool big_endian = false;
};

/// The elements in row-major and native order. All of them lie in `storage`: the caller has checked
/// that.
Tensor gather_strided(std::span<const std::byte> storage, const StridedView& view);

}  // namespace mainstem
