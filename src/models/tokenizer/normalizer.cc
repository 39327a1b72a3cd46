#include "models/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <new>
#include <vector>

#include "models/tokenizer/unicode.h"

namespace mainstem::tokenizer {
namespace {

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

/// Appends the canonical decomposition of one code point.
void append_decomposed(uint32_t code_point, std::vector<utf8proc_int32_t>& out) {
  utf8proc_int32_t buffer[32];
  int boundary = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(code_point), buffer, std::size(buffer),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), &boundary);
  if (count < 0 || count > static_cast<utf8proc_ssize_t>(std::size(buffer))) {
    out.push_back(static_cast<utf8proc_int32_t>(code_point));
  } else {
    out.insert(out.end(), buffer, buffer + count);
  }
}

/// Combining marks into canonical order. utf8proc's own sort takes quadratic time on long runs.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  std::vector<uint64_t> keys;
  for (size_t begin = 0; begin < text.size();) {
    if (combining_class(text[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    if (end - begin > 1) {
      // Sorted by class, equals in the order they came in.
      keys.clear();
      for (size_t i = begin; i < end; ++i) {
        keys.push_back(static_cast<uint64_t>(combining_class(text[i])) << 53 |
                       static_cast<uint64_t>(i - begin) << 21 | static_cast<uint64_t>(text[i]));
      }
      std::ranges::sort(keys);
      for (size_t i = begin; i < end; ++i) {
        text[i] = static_cast<utf8proc_int32_t>(keys[i - begin] & 0x1FFFFF);
      }
    }
    begin = end;
  }
}

void append_composed(std::vector<utf8proc_int32_t>& text, std::string& out) {
  if (text.empty()) return;
  order_marks(text);
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(text.data(), static_cast<utf8proc_ssize_t>(text.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  text.resize(count < 0 ? text.size() : static_cast<size_t>(count));
  for (const utf8proc_int32_t code_point : text) {
    append_utf8(static_cast<uint32_t>(code_point), out);
  }
  text.clear();
}

}  // namespace

std::string to_nfc(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::ranges::all_of(text, is_ascii)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> run;
  while (!text.empty()) {
    const DecodedCodePoint next = decode_utf8(text);
    if (next.valid) {
      append_decomposed(next.code_point, run);
    } else {
      append_composed(run, out);
      out += text[0];
    }
    text.remove_prefix(next.length);
  }
  append_composed(run, out);
  return out;
}

}  // namespace mainstem::tokenizer
