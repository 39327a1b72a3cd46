#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/chat/runtime.h"
#include "models/chat/value.h"

// Strings as Python has them: sequences of code points. Texts are valid UTF-8 throughout.

namespace mainstem::chat {

std::u32string decode(std::string_view text);
std::string encode(std::u32string_view points);
int64_t count_points(std::string_view text);

/// Of str.isspace and str.strip.
bool is_space(uint32_t point);
/// Strips white space, or any of the given characters.
enum class Ends { kLeft, kRight, kBoth };
std::string_view strip_space(std::string_view text, Ends ends);
std::string strip_any(std::string_view text, std::string_view characters, Ends ends);

// One character becomes one character, except ß; Python has about a hundred more exceptions.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);        ///< str.title
std::string title_words(std::string_view text);  ///< the filter `title`

std::string replace(std::string_view text, std::string_view old, std::string_view with,
                    int64_t count);
/// Pieces between white space, or between separators; `count` < 0 for all.
std::vector<std::string> split_space(std::string_view text, int64_t count, bool from_right);
std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t count,
                                  bool from_right);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);

std::string repr(double value);
std::string repr(std::string_view text);
/// str(value) and repr(value); an Error for values that Python shows with an address.
std::string to_text(Runtime& runtime, const Value& value);
std::string repr(Runtime& runtime, const Value& value);

struct JsonStyle {
  bool ascii = false, sort_keys = false, indented = false;
  std::string indent, item_separator = ", ", key_separator = ": ";
};
/// json.dumps; an Error for what it cannot write.
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace mainstem::chat
