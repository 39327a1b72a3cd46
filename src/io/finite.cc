#include <cmath>
#include <cstring>
#include <vector>

#include "mainstem/stored_tensor.h"
#include "tensor/block_formats.h"

namespace mainstem {
namespace {

bool f16_is_finite(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return (bits & 0x7C00) != 0x7C00;
}

std::optional<int64_t> first_bad_block(const TensorView& tensor) {
  const DTypeInfo& type = info(tensor.dtype());
  const BlockScales scales = block_scales(tensor.dtype());
  const int64_t blocks = tensor.bytes() / type.block_bytes;
  for (int64_t block = 0; block < blocks; ++block) {
    const std::byte* at = tensor.data() + block * type.block_bytes;
    for (const int offset : {scales.scale, scales.minimum}) {
      if (offset >= 0 && !f16_is_finite(at + offset)) return block * type.block_elements;
    }
  }
  return {};
}

}  // namespace

std::optional<int64_t> first_non_finite(const TensorView& tensor) {
  const DTypeInfo& type = info(tensor.dtype());
  if (tensor.count() == 0) return {};
  if (type.is_quantised) return first_bad_block(tensor);
  if (!type.is_float) return {};
  std::vector<double> row(static_cast<size_t>(tensor.columns()));
  for (int64_t r = 0; r < tensor.rows(); ++r) {
    read_row(tensor, r, row.data());
    for (size_t c = 0; c < row.size(); ++c) {
      if (!std::isfinite(row[c])) return r * tensor.columns() + static_cast<int64_t>(c);
    }
  }
  return {};
}

}  // namespace mainstem
