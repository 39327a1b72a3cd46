#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
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

/// In integers, which the compiler may take several at a time.
template <typename Float>
bool all_finite(const std::vector<Float>& row) {
  using Bits = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;
  constexpr Bits kMagnitude = ~Bits{0} >> 1;
  Bits largest = 0;
  for (const Float value : row) {
    largest = std::max(largest, std::bit_cast<Bits>(value) & kMagnitude);
  }
  return largest < std::bit_cast<Bits>(std::numeric_limits<Float>::infinity());
}

template <typename Float>
std::optional<int64_t> first_bad_element(const TensorView& tensor) {
  std::vector<Float> row(static_cast<size_t>(tensor.columns()));
  for (int64_t r = 0; r < tensor.rows(); ++r) {
    read_row(tensor, r, row.data());
    if (all_finite(row)) continue;
    const auto bad =
        std::find_if(row.begin(), row.end(), [](Float value) { return !std::isfinite(value); });
    return r * tensor.columns() + (bad - row.begin());
  }
  return {};
}

}  // namespace

std::optional<int64_t> first_non_finite(const TensorView& tensor, NumberRange range) {
  const DTypeInfo& type = info(tensor.dtype());
  if (tensor.count() == 0) return {};
  if (type.is_quantised) return first_bad_block(tensor);
  if (!type.is_float) return {};
  // Every narrower type widens to float32 without loss.
  const bool wide = tensor.dtype() == DType::kF64 && range == NumberRange::kOwn;
  return wide ? first_bad_element<double>(tensor) : first_bad_element<float>(tensor);
}

}  // namespace mainstem
