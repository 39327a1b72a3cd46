#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "mainstem/tensor.h"

namespace mainstem {

/// Bytes before the header text: magic, version and the length of the text.
struct NpyPreamble {
  size_t bytes = 0;       ///< of the preamble
  size_t text_bytes = 0;  ///< of the header text that follows
};
constexpr size_t kNpyShortPreamble = 10;  ///< format 1; formats 2 and 3 have 2 bytes more

/// The longest header text that is read (numpy itself refuses above 10000 by default).
constexpr size_t kMaxNpyHeaderBytes = 65536;

/// The dictionary of the header.
struct NpyHeader {
  DType dtype = DType::kF32;
  /// How a message calls a type that is not read (objects, texts, complex, structured); then
  /// `dtype` means nothing, and require_known_type throws.
  std::string unknown_type;
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
};

/// `bytes` holds at least the first kNpyShortPreamble + 2 bytes of the file, or all of it.
NpyPreamble parse_npy_preamble(std::span<const std::byte> bytes);
/// Strict: the three keys, each once, and nothing else.
NpyHeader parse_npy_header(std::string_view text);
void require_known_type(const NpyHeader& header);

/// Header and data of an array in memory, checked to fit each other.
struct NpyArray {
  NpyHeader header;
  std::span<const std::byte> data;
};
/// The size of the data is not checked where the type is not known.
NpyArray split_npy(std::span<const std::byte> bytes);

/// Makes values that were read as they lie in the file row-major and native.
Tensor arrange_npy(const NpyHeader& header, Tensor values);

/// Preamble and header of format 1.0, a multiple of 64 bytes. An Error (kUsage) where numpy has no
/// such type.
std::string npy_header_text(DType dtype, std::span<const int64_t> shape);

}  // namespace mainstem
