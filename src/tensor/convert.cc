// Small floating-point formats, and the reading of any type as float or double.

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "mainstem/error.h"
#include "mainstem/tensor.h"
#include "tensor/block_formats.h"

namespace mainstem {

// Files and memory agree on the order of bytes; a big-endian port would swap here.
static_assert(std::endian::native == std::endian::little);

// The conversions use integer arithmetic (or exact products), so that neither the rounding mode
// nor a caller's flush-to-zero setting changes a weight.

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide_exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide_exponent << 23 | mantissa << 13);
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // quiet, upper payload kept
  } else if (magnitude >= 0x47800000u) {            // 65536 and more
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal; the carry may reach infinity, as it should
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else if (magnitude >= 0x33000000u) {  // 2^-25 and more: a multiple of 2^-24
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t shift = 126 - (magnitude >> 23);
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t tie = 1u << (shift - 1);
    half = mantissa >> shift;
    if (rest > tie || (rest == tie && (half & 1u) != 0)) ++half;
  }
  return static_cast<uint16_t>(sign | half);
}

uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

namespace {

// e4m3 in the "fn" variant of PyTorch and safetensors: no infinities, one NaN per sign.
float f8_e4m3_to_f32(uint8_t bits) {
  const uint32_t exponent = (bits >> 3) & 15u;
  const uint32_t mantissa = bits & 7u;
  float magnitude = 0;
  if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-9f;
  } else if (exponent == 15 && mantissa == 7) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else {
    magnitude = std::bit_cast<float>((exponent + (127 - 7)) << 23 | mantissa << 20);
  }
  const uint32_t sign = (bits & 0x80u) << 24;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// e5m2 is the upper byte of an f16.
float f8_e5m2_to_f32(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 8)); }

// Reads `count` elements stored as Stored (possibly unaligned) through `widen`.
template <typename Stored, typename Out, typename Widen>
void convert(const std::byte* data, int64_t count, Out* out, Widen&& widen) {
  for (int64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
    out[i] = static_cast<Out>(widen(value));
  }
}

template <typename Stored, typename Out>
void convert_number(const std::byte* data, int64_t count, Out* out) {
  convert<Stored>(data, count, out, [](Stored value) { return value; });
}

template <typename Out>
void convert_elements(DType dtype, const std::byte* data, int64_t count, Out* out) {
  switch (dtype) {
    case DType::kBool:
      return convert<uint8_t>(data, count, out, [](uint8_t value) { return value != 0 ? 1 : 0; });
    case DType::kU8:
      return convert_number<uint8_t>(data, count, out);
    case DType::kI8:
      return convert_number<int8_t>(data, count, out);
    case DType::kU16:
      return convert_number<uint16_t>(data, count, out);
    case DType::kI16:
      return convert_number<int16_t>(data, count, out);
    case DType::kU32:
      return convert_number<uint32_t>(data, count, out);
    case DType::kI32:
      return convert_number<int32_t>(data, count, out);
    case DType::kU64:
      return convert_number<uint64_t>(data, count, out);
    case DType::kI64:
      return convert_number<int64_t>(data, count, out);
    case DType::kF16:
      return convert<uint16_t>(data, count, out, f16_to_f32);
    case DType::kBF16:
      return convert<uint16_t>(data, count, out, bf16_to_f32);
    case DType::kF32:
      return convert_number<float>(data, count, out);
    case DType::kF64:
      return convert_number<double>(data, count, out);
    case DType::kF8E4M3:
      return convert<uint8_t>(data, count, out, f8_e4m3_to_f32);
    case DType::kF8E5M2:
      return convert<uint8_t>(data, count, out, f8_e5m2_to_f32);
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0:
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return dequantize_blocks(dtype, data, count / info(dtype).block_elements, out);
  }
  throw internal_error("dtype without a reader");
}

template <typename Out>
void read_part(const TensorView& tensor, int64_t row, int64_t begin, int64_t end, Out* out) {
  const DTypeInfo& type = info(tensor.dtype());
  if (row < 0 || row >= tensor.rows() || begin < 0 || end < begin || end > tensor.columns()) {
    throw internal_error("columns [" + std::to_string(begin) + ", " + std::to_string(end) +
                         ") of row " + std::to_string(row) + " asked of a tensor of shape " +
                         to_string(tensor.shape()));
  }
  if (begin % type.block_elements != 0 || end % type.block_elements != 0) {
    throw internal_error("columns [" + std::to_string(begin) + ", " + std::to_string(end) +
                         ") cut a block of " + std::string(type.name));
  }
  if (begin == end) return;
  const std::byte* first =
      tensor.data() + row * tensor.row_bytes() + begin / type.block_elements * type.block_bytes;
  convert_elements(tensor.dtype(), first, end - begin, out);
}

template <typename Out>
std::vector<Out> read_all(const TensorView& tensor) {
  std::vector<Out> values(static_cast<size_t>(tensor.count()));
  if (!values.empty()) {
    convert_elements(tensor.dtype(), tensor.data(), tensor.count(), values.data());
  }
  return values;
}

}  // namespace

void read_row(const TensorView& tensor, int64_t row, float* out) {
  read_part(tensor, row, 0, tensor.columns(), out);
}

void read_row(const TensorView& tensor, int64_t row, double* out) {
  read_part(tensor, row, 0, tensor.columns(), out);
}

void read_row(const TensorView& tensor, int64_t row, int64_t begin, int64_t end, float* out) {
  read_part(tensor, row, begin, end, out);
}

void read_row(const TensorView& tensor, int64_t row, int64_t begin, int64_t end, double* out) {
  read_part(tensor, row, begin, end, out);
}

std::vector<float> to_f32(const TensorView& tensor) { return read_all<float>(tensor); }
std::vector<double> to_f64(const TensorView& tensor) { return read_all<double>(tensor); }

}  // namespace mainstem
