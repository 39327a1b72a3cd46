#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "mainstem/error.h"
#include "mainstem/stored_tensor.h"

namespace mainstem {
namespace {

bool f16_is_finite(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return (bits & 0x7C00) != 0x7C00;
}

// Where the f16 scales of one block stand; -1 where there is no second one.
std::array<int, 2> scale_offsets(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
      return {0, -1};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108, -1};
    case DType::kQ6_K:
      return {208, -1};
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kU16:
    case DType::kI16:
    case DType::kU32:
    case DType::kI32:
    case DType::kU64:
    case DType::kI64:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      break;
  }
  throw internal_error("scale_offsets of a type without blocks");
}

std::optional<int64_t> first_bad_block(const TensorView& tensor) {
  const DTypeInfo& type = info(tensor.dtype());
  const auto offsets = scale_offsets(tensor.dtype());
  const int64_t blocks = tensor.bytes() / type.block_bytes;
  for (int64_t block = 0; block < blocks; ++block) {
    const std::byte* at = tensor.data() + block * type.block_bytes;
    for (const int offset : offsets) {
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
