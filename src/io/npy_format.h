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
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
};

/// `bytes` holds at least the first kNpyShortPreamble + 2 bytes of the file, or all of it.
NpyPreamble parse_npy_preamble(std::span<const std::byte> bytes);
/// Strict: the three keys, each once, and nothing else.
NpyHeader parse_npy_header(std::string_view text);

/// Makes values that were read as they lie in the file row-major and native.
Tensor arrange_npy(const NpyHeader& header, Tensor values);

/// Preamble and header of format 1.0, a multiple of 64 bytes. An Error (kUsage) where numpy has no
/// such type.
std::string npy_header_text(DType dtype, std::span<const int64_t> shape);

}  // namespace mainstem
