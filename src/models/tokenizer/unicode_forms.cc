#include "models/tokenizer/unicode_forms.h"

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

/// Appends the decomposition of one code point.
void append_decomposed(uint32_t code_point, bool compatible, std::vector<utf8proc_int32_t>& out) {
  utf8proc_int32_t buffer[32];
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), buffer, std::size(buffer),
                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE |
                                                             (compatible ? UTF8PROC_COMPAT : 0)),
                              &boundary);
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

/// Moves a run of decomposed text to `out`.
void append_run(std::vector<utf8proc_int32_t>& run, bool compose, std::string& out) {
  if (run.empty()) return;
  order_marks(run);
  if (compose) {
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(
        run.data(), static_cast<utf8proc_ssize_t>(run.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    run.resize(count < 0 ? run.size() : static_cast<size_t>(count));
  }
  for (const utf8proc_int32_t code_point : run) {
    append_utf8(static_cast<uint32_t>(code_point), out);
  }
  run.clear();
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

std::string to_form(std::string_view text, UnicodeForm form) {
  if (is_ascii(text)) return std::string(text);
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  const bool compose = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> run;
  while (!text.empty()) {
    const DecodedCodePoint next = decode_utf8(text);
    if (next.valid) {
      append_decomposed(next.code_point, compatible, run);
    } else {
      append_run(run, compose, out);
      out += text[0];
    }
    text.remove_prefix(next.length);
  }
  append_run(run, compose, out);
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const DecodedCodePoint next = decode_utf8(text);
    if (!next.valid) {
      out += text[0];
    } else if (next.code_point < 0x80) {
      const char c = text[0];
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (next.code_point == 0x130) {
      out += "i\u0307";
    } else {
      append_utf8(
          static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(next.code_point))),
          out);
    }
    text.remove_prefix(next.length);
  }
  return out;
}

size_t grapheme_length(std::string_view text) {
  const DecodedCodePoint first = decode_utf8(text);
  size_t length = first.length;
  if (!first.valid) return length;
  auto previous = static_cast<utf8proc_int32_t>(first.code_point);
  utf8proc_int32_t state = 0;
  while (length < text.size()) {
    const DecodedCodePoint next = decode_utf8(text.substr(length));
    if (!next.valid) break;
    const auto code_point = static_cast<utf8proc_int32_t>(next.code_point);
    if (utf8proc_grapheme_break_stateful(previous, code_point, &state)) break;
    previous = code_point;
    length += next.length;
  }
  return length;
}

}  // namespace mainstem::tokenizer
