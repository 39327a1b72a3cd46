#include "tensor/block_formats.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "mainstem/error.h"

// One template per format serves both result types. Every product of scales and a quant fits 24
// bits (11 of the half-precision scale, at most 7 of the sub-block's scale, at most 5 of the
// quant), so it is exact even in float; only the last sum or difference rounds. In double nothing
// does: all terms are multiples of 2^-24 below 2^28.

namespace mainstem {
namespace {

/// A type without blocks has none.
constexpr std::optional<BlockScales> scales_of(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
      return BlockScales{0, -1};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return BlockScales{0, 2};
    case DType::kQ2_K:
      return BlockScales{80, 82};
    case DType::kQ3_K:
      return BlockScales{108, -1};
    case DType::kQ6_K:
      return BlockScales{208, -1};
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
  return {};
}

template <DType dtype>
constexpr BlockScales kScales = *scales_of(dtype);

float half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return f16_to_f32(bits);
}

uint32_t word_at(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// Blocks of 32: element j sits in the low nibble of byte j, element j + 16 in the high one.

template <typename T>
void q4_0(const uint8_t* block, T* out) {
  const T d = half_at(block + kScales<DType::kQ4_0>.scale);
  const uint8_t* quants = block + 2;
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<T>((quants[j] & 15) - 8);
    out[j + 16] = d * static_cast<T>((quants[j] >> 4) - 8);
  }
}

template <typename T>
void q4_1(const uint8_t* block, T* out) {
  const T d = half_at(block + kScales<DType::kQ4_1>.scale);
  const T m = half_at(block + kScales<DType::kQ4_1>.minimum);
  const uint8_t* quants = block + 4;
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<T>(quants[j] & 15) + m;
    out[j + 16] = d * static_cast<T>(quants[j] >> 4) + m;
  }
}

// The fifth bit of element i is bit i of a 32-bit word.
struct FiveBit {
  uint32_t high;
  const uint8_t* quants;
  int low_half(int j) const { return (quants[j] & 15) | static_cast<int>(high >> j & 1) << 4; }
  int high_half(int j) const {
    return (quants[j] >> 4) | static_cast<int>(high >> (j + 16) & 1) << 4;
  }
};

template <typename T>
void q5_0(const uint8_t* block, T* out) {
  const T d = half_at(block + kScales<DType::kQ5_0>.scale);
  const FiveBit q{word_at(block + 2), block + 6};
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<T>(q.low_half(j) - 16);
    out[j + 16] = d * static_cast<T>(q.high_half(j) - 16);
  }
}

template <typename T>
void q5_1(const uint8_t* block, T* out) {
  const T d = half_at(block + kScales<DType::kQ5_1>.scale);
  const T m = half_at(block + kScales<DType::kQ5_1>.minimum);
  const FiveBit q{word_at(block + 4), block + 8};
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<T>(q.low_half(j)) + m;
    out[j + 16] = d * static_cast<T>(q.high_half(j)) + m;
  }
}

template <typename T>
void q8_0(const uint8_t* block, T* out) {
  const T d = half_at(block + kScales<DType::kQ8_0>.scale);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<T>(static_cast<int8_t>(block[2 + j])) * d;
}

// Blocks of 256. Two-bit quants: byte i of each group of 32 bytes holds elements i, i + 32,
// i + 64 and i + 96 of that group's 128 elements, from its low bits up.

template <typename T>
void q2_k(const uint8_t* block, T* out) {
  const uint8_t* scales = block;  // low nibble scale, high nibble minimum; one per 16 elements
  const uint8_t* quants = block + 16;
  const T d = half_at(block + kScales<DType::kQ2_K>.scale);
  const T dmin = half_at(block + kScales<DType::kQ2_K>.minimum);
  for (int sub = 0; sub < 16; ++sub) {
    const T scale = d * static_cast<T>(scales[sub] & 15);
    const T minimum = dmin * static_cast<T>(scales[sub] >> 4);
    const uint8_t* group = quants + sub / 8 * 32 + sub % 2 * 16;
    const int shift = sub % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) {
      out[sub * 16 + i] = scale * static_cast<T>(group[i] >> shift & 3) - minimum;
    }
  }
}

template <typename T>
void q3_k(const uint8_t* block, T* out) {
  const uint8_t* high_mask = block;  // bit s of byte i belongs to element 32 s + i
  const uint8_t* quants = block + 32;
  const uint8_t* scales = block + 96;
  const T d = half_at(block + kScales<DType::kQ3_K>.scale);
  for (int sub = 0; sub < 16; ++sub) {
    // Six-bit scales: low nibbles of eight bytes, then their high nibbles; two upper bits each
    // in the last four bytes.
    const int low = scales[sub % 8] >> (sub / 8 * 4) & 15;
    const int high = scales[8 + sub % 4] >> (sub / 4 * 2) & 3;
    const T scale = d * static_cast<T>((low | high << 4) - 32);
    const uint8_t* group = quants + sub / 8 * 32 + sub % 2 * 16;
    const uint8_t* mask = high_mask + sub % 2 * 16;
    const int shift = sub % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) {
      // A clear mask bit means minus four.
      const int q = (group[i] >> shift & 3) - ((mask[i] >> (sub / 2) & 1) != 0 ? 0 : 4);
      out[sub * 16 + i] = scale * static_cast<T>(q);
    }
  }
}

// Scale and minimum of sub-block `sub` of Q4_K and Q5_K, six bits each in twelve bytes.
struct ScaleMin {
  int scale, minimum;
};

ScaleMin scale_min(const uint8_t* packed, int sub) {
  if (sub < 4) return {packed[sub] & 63, packed[sub + 4] & 63};
  const int i = sub - 4;
  return {(packed[i + 8] & 15) | (packed[i] >> 6) << 4, (packed[i + 8] >> 4) | (packed[i + 4] >> 6)
                                                                                   << 4};
}

template <typename T>
void q4_k(const uint8_t* block, T* out) {
  const T d = half_at(block + kScales<DType::kQ4_K>.scale);
  const T dmin = half_at(block + kScales<DType::kQ4_K>.minimum);
  const uint8_t* quants = block + 16;
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleMin packed = scale_min(block + 4, sub);
    const T scale = d * static_cast<T>(packed.scale);
    const T minimum = dmin * static_cast<T>(packed.minimum);
    const uint8_t* group = quants + sub / 2 * 32;
    const int shift = sub % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      out[sub * 32 + i] = scale * static_cast<T>(group[i] >> shift & 15) - minimum;
    }
  }
}

template <typename T>
void q5_k(const uint8_t* block, T* out) {
  const T d = half_at(block + kScales<DType::kQ5_K>.scale);
  const T dmin = half_at(block + kScales<DType::kQ5_K>.minimum);
  const uint8_t* high_bits = block + 16;  // bit s of byte i belongs to element 32 s + i
  const uint8_t* quants = block + 48;
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleMin packed = scale_min(block + 4, sub);
    const T scale = d * static_cast<T>(packed.scale);
    const T minimum = dmin * static_cast<T>(packed.minimum);
    const uint8_t* group = quants + sub / 2 * 32;
    const int shift = sub % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int q = (group[i] >> shift & 15) | (high_bits[i] >> sub & 1) << 4;
      out[sub * 32 + i] = scale * static_cast<T>(q) - minimum;
    }
  }
}

template <typename T>
void q6_k(const uint8_t* block, T* out) {
  const uint8_t* low = block;
  const uint8_t* high = block + 128;
  const uint8_t* scales = block + 192;
  const T d = half_at(block + kScales<DType::kQ6_K>.scale);
  for (int sub = 0; sub < 16; ++sub) {
    const T scale = d * static_cast<T>(static_cast<int8_t>(scales[sub]));
    // Within a half of 128 elements, quarter k takes the low nibbles of bytes 32 (k % 2) + i for
    // k < 2 and the high ones for k >= 2, and bit pair k of its high byte i.
    const int half = sub / 8;
    const int quarter = sub % 8 / 2;
    const int offset = sub % 2 * 16;
    const uint8_t* low_group = low + half * 64 + quarter % 2 * 32 + offset;
    const uint8_t* high_group = high + half * 32 + offset;
    for (int i = 0; i < 16; ++i) {
      const int q = (low_group[i] >> (quarter / 2 * 4) & 15) | (high_group[i] >> (quarter * 2) & 3)
                                                                   << 4;
      out[sub * 16 + i] = scale * static_cast<T>(q - 32);
    }
  }
}

template <typename T>
void dequantize(DType dtype, const std::byte* data, int64_t blocks, T* out) {
  const DTypeInfo& type = info(dtype);
  const auto each = [&](void (*one)(const uint8_t*, T*)) {
    const auto* block = reinterpret_cast<const uint8_t*>(data);
    for (int64_t b = 0; b < blocks; ++b) {
      one(block + b * type.block_bytes, out + b * type.block_elements);
    }
  };
  switch (dtype) {
    case DType::kQ4_0:
      return each(q4_0<T>);
    case DType::kQ4_1:
      return each(q4_1<T>);
    case DType::kQ5_0:
      return each(q5_0<T>);
    case DType::kQ5_1:
      return each(q5_1<T>);
    case DType::kQ8_0:
      return each(q8_0<T>);
    case DType::kQ2_K:
      return each(q2_k<T>);
    case DType::kQ3_K:
      return each(q3_k<T>);
    case DType::kQ4_K:
      return each(q4_k<T>);
    case DType::kQ5_K:
      return each(q5_k<T>);
    case DType::kQ6_K:
      return each(q6_k<T>);
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
  throw internal_error("dequantisation of " + std::string(type.name) + ", which has no blocks");
}

}  // namespace

BlockScales block_scales(DType dtype) {
  if (const auto scales = scales_of(dtype)) return *scales;
  throw internal_error("block scales of " + std::string(name(dtype)) + ", which has no blocks");
}

void dequantize_blocks(DType dtype, const std::byte* data, int64_t blocks, float* out) {
  dequantize(dtype, data, blocks, out);
}

void dequantize_blocks(DType dtype, const std::byte* data, int64_t blocks, double* out) {
  dequantize(dtype, data, blocks, out);
}

}  // namespace mainstem
