#include "io/npy_format.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/byte_reader.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr size_t kMaxRank = 64;  // numpy's own

struct NpyType {
  std::string_view code;
  DType dtype;
};
// ml_dtypes stores bfloat16 as two opaque bytes.
constexpr NpyType kTypes[] = {
    {"b1", DType::kBool}, {"u1", DType::kU8},  {"i1", DType::kI8},  {"u2", DType::kU16},
    {"i2", DType::kI16},  {"u4", DType::kU32}, {"i4", DType::kI32}, {"u8", DType::kU64},
    {"i8", DType::kI64},  {"f2", DType::kF16}, {"f4", DType::kF32}, {"f8", DType::kF64},
    {"V2", DType::kBF16},
};

void set_type(std::string_view descr, NpyHeader& header) {
  if (!descr.empty() && std::string_view("<>|=").find(descr[0]) != descr.npos) {
    for (const NpyType& type : kTypes) {
      if (type.code != descr.substr(1)) continue;
      header.dtype = type.dtype;
      header.big_endian = descr[0] == '>' && info(type.dtype).block_bytes > 1;
      return;
    }
  }
  header.unknown_type = quote(descr);
}

// The literal that numpy writes: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      parse_item();
      if (accept('}')) break;
      expect(',');
    }
    skip_spaces();
    if (at_ != text_.size()) fail("the end");
    if (!seen_descr_ || !seen_order_ || !seen_shape_) {
      throw bad_input("npy header", "the keys descr, fortran_order and shape", quote(text_));
    }
    return std::move(header_);
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw bad_input("npy header", expected + " at byte " + std::to_string(at_),
                    quote(text_.substr(at_), 40));
  }
  void skip_spaces() {
    while (at_ < text_.size() && std::string_view(" \n\t\r").find(text_[at_]) != text_.npos) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "'");
  }
  bool accept_word(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  std::string_view parse_string() {
    skip_spaces();
    const char mark = at_ < text_.size() ? text_[at_] : '\0';
    if (mark != '\'' && mark != '"') fail("a quoted text");
    const size_t end = text_.find(mark, at_ + 1);
    if (end == text_.npos) fail("a closing quote");
    const std::string_view result = text_.substr(at_ + 1, end - at_ - 1);
    if (result.find('\\') != result.npos) fail("a text without escapes");
    at_ = end + 1;
    return result;
  }
  void parse_item() {
    const std::string_view key = parse_string();
    expect(':');
    if (key == "descr") {
      first(seen_descr_, key);
      skip_spaces();
      if (text_.substr(at_).starts_with('[')) {
        skip_structured();
      } else {
        set_type(parse_string(), header_);
      }
    } else if (key == "fortran_order") {
      first(seen_order_, key);
      header_.fortran_order = accept_word("True");
      if (!header_.fortran_order && !accept_word("False")) fail("True or False");
    } else if (key == "shape") {
      first(seen_shape_, key);
      parse_shape();
    } else {
      throw bad_input("npy header", "the keys descr, fortran_order and shape", quote(key));
    }
  }
  // A list of fields, which may hold lists and texts.
  void skip_structured() {
    header_.unknown_type = "a structured one";
    int depth = 0;
    do {
      skip_spaces();
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      if (c == '\0') fail("']'");
      if (c == '\'' || c == '"') {
        parse_string();
        continue;
      }
      if (c == '[') ++depth;
      if (c == ']') --depth;
      ++at_;
    } while (depth > 0);
  }
  void first(bool& seen, std::string_view key) {
    if (seen) throw bad_input("npy header", "each key once", quote(key) + " twice");
    seen = true;
  }
  void parse_shape() {
    expect('(');
    while (!accept(')')) {
      if (header_.shape.size() == kMaxRank) fail("at most 64 dimensions");
      skip_spaces();
      int64_t dim = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0) fail("a dimension below 2^63");
      at_ += static_cast<size_t>(end - begin);
      accept_word("L");  // written by Python 2
      header_.shape.push_back(dim);
      if (accept(',')) continue;
      if (header_.shape.size() == 1) fail("',' after the only dimension");
      expect(')');
      return;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  NpyHeader header_;
  bool seen_descr_ = false, seen_order_ = false, seen_shape_ = false;
};

void swap_bytes(std::byte* data, size_t count, size_t width) {
  for (size_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

// From the first dimension running fastest to the last one running fastest.
Tensor to_row_major(const Tensor& source, size_t width) {
  const Shape& shape = source.shape();
  Tensor result(source.dtype(), shape);
  const std::byte* from = source.view().data();
  std::byte* to = result.data<std::byte>();
  std::vector<size_t> index(shape.size(), 0), stride(shape.size(), 1);
  for (size_t axis = 1; axis < shape.size(); ++axis) {
    stride[axis] = stride[axis - 1] * static_cast<size_t>(shape[axis - 1]);
  }
  size_t at = 0;
  for (int64_t i = 0; i < source.count(); ++i) {
    std::copy_n(from + at * width, width, to + static_cast<size_t>(i) * width);
    for (size_t axis = shape.size(); axis-- > 0;) {
      at += stride[axis];
      if (++index[axis] < static_cast<size_t>(shape[axis])) break;
      at -= stride[axis] * index[axis];
      index[axis] = 0;
    }
  }
  return result;
}

}  // namespace

NpyPreamble parse_npy_preamble(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (bytes.size() < kNpyShortPreamble || reader.take_text(6, "magic") != kMagic) {
    throw bad_input("npy magic", "\"\\x93NUMPY\"", describe_content(bytes));
  }
  const auto major = reader.read<uint8_t>("version");
  const auto minor = reader.read<uint8_t>("version");
  if (major < 1 || major > 3 || minor != 0) {
    throw bad_input("npy version", "1.0, 2.0 or 3.0",
                    std::to_string(major) + "." + std::to_string(minor));
  }
  const uint64_t length =
      major == 1 ? reader.read<uint16_t>("header length") : reader.read<uint32_t>("header length");
  if (length > kMaxNpyHeaderBytes) {
    throw bad_input("npy header length", "at most 65536", std::to_string(length));
  }
  return {reader.offset(), static_cast<size_t>(length)};
}

NpyHeader parse_npy_header(std::string_view text) { return HeaderParser(text).parse(); }

void require_known_type(const NpyHeader& header) {
  if (header.unknown_type.empty()) return;
  Error error =
      bad_input("descr", "bool, an integer, f2, f4, f8, or V2 (bfloat16)", header.unknown_type);
  if (header.unknown_type.find('O') != std::string::npos) {
    error.hint("the array holds Python objects, which are never unpickled");
  }
  throw error;
}

NpyArray split_npy(std::span<const std::byte> bytes) {
  const NpyPreamble preamble = parse_npy_preamble(bytes);
  ByteReader reader(bytes);
  reader.seek(preamble.bytes, "npy header");
  NpyHeader header = parse_npy_header(reader.take_text(preamble.text_bytes, "npy header"));
  if (header.unknown_type.empty()) {
    const auto expected = static_cast<uint64_t>(byte_count(header.dtype, header.shape));
    if (reader.remaining() != expected) {
      const bool short_of = reader.remaining() < expected;
      throw bad_input("npy data",
                      std::to_string(expected) + " bytes for " + std::string(name(header.dtype)) +
                          " " + to_string(header.shape),
                      std::to_string(reader.remaining()) +
                          (short_of ? ": the file is truncated" : ": more than the array"));
    }
  }
  return {std::move(header), reader.take(reader.remaining(), "npy data")};
}

Tensor arrange_npy(const NpyHeader& header, Tensor values) {
  const auto width = static_cast<size_t>(info(header.dtype).block_bytes);
  if (header.big_endian && values.count() > 0) {
    swap_bytes(values.data<std::byte>(), static_cast<size_t>(values.count()), width);
  }
  if (header.fortran_order && header.shape.size() > 1 && values.count() > 0) {
    return to_row_major(values, width);
  }
  return values;
}

std::string npy_header_text(DType dtype, std::span<const int64_t> shape) {
  const auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& t) { return t.dtype == dtype; });
  if (type == std::end(kTypes)) {
    throw usage_error("dtype", "a type that numpy has", std::string(name(dtype)))
        .hint("write safetensors, or convert the values to f32");
  }
  const bool one_byte = info(dtype).block_bytes == 1;
  std::string dict = "{'descr': '" + std::string(one_byte ? "|" : "<") + std::string(type->code) +
                     "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i) {
    dict += std::to_string(shape[i]) + (i + 1 < shape.size() ? ", " : "");
  }
  dict += shape.size() == 1 ? ",), }" : "), }";
  const size_t total = (kNpyShortPreamble + dict.size() + 1 + 63) / 64 * 64;
  dict.resize(total - kNpyShortPreamble - 1, ' ');
  dict += '\n';
  if (dict.size() > 0xFFFF) {
    throw usage_error("shape", "a header of at most 65535 bytes", to_string(shape));
  }
  std::string result(kMagic);
  result += '\x01';
  result += '\x00';
  result += static_cast<char>(dict.size() & 0xFF);
  result += static_cast<char>(dict.size() >> 8);
  return result + dict;
}

}  // namespace mainstem
