#include "models/chat/python_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "models/tokenizer/unicode.h"

namespace mainstem::chat {
namespace {

using tokenizer::append_utf8;
using tokenizer::decode_utf8;

constexpr uint32_t kSharpS = 0xDF;

uint32_t upper_of(uint32_t point) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(point)));
}
uint32_t lower_of(uint32_t point) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point)));
}
uint32_t title_of(uint32_t point) {
  return static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(point)));
}

template <typename Function>
std::string mapped(std::string_view text, Function&& function) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto [point, length, valid] = decode_utf8(text);
    append_utf8(function(point), result);
    text.remove_prefix(length);
  }
  return result;
}

bool is_cased(uint32_t point) {
  return upper_of(point) != point || lower_of(point) != point || title_of(point) != point;
}

bool is_line_end(uint32_t point) {
  return (point >= 0x0A && point <= 0x0D) || (point >= 0x1C && point <= 0x1E) || point == 0x85 ||
         point == 0x2028 || point == 0x2029;
}

/// Where the last character of a text begins.
size_t last_begin(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

template <typename Predicate>
std::string_view strip_if(std::string_view text, Ends ends, Predicate&& wanted) {
  while (ends != Ends::kRight && !text.empty()) {
    const auto first = decode_utf8(text);
    if (!wanted(first.code_point)) break;
    text.remove_prefix(first.length);
  }
  while (ends != Ends::kLeft && !text.empty()) {
    const size_t at = last_begin(text);
    if (!wanted(decode_utf8(text.substr(at)).code_point)) break;
    text = text.substr(0, at);
  }
  return text;
}

}  // namespace

std::u32string decode(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  while (!text.empty()) {
    const auto decoded = decode_utf8(text);
    points.push_back(static_cast<char32_t>(decoded.code_point));
    text.remove_prefix(decoded.length);
  }
  return points;
}

std::string encode(std::u32string_view points) {
  std::string text;
  for (const char32_t point : points) append_utf8(static_cast<uint32_t>(point), text);
  return text;
}

int64_t count_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

bool is_space(uint32_t point) {
  return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x20) || point == 0x85 ||
         point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
         point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F ||
         point == 0x3000;
}

std::string_view strip_space(std::string_view text, Ends ends) {
  return strip_if(text, ends, is_space);
}

std::string strip_any(std::string_view text, std::string_view characters, Ends ends) {
  std::u32string set = decode(characters);
  std::sort(set.begin(), set.end());
  return std::string(strip_if(text, ends, [&](uint32_t point) {
    return std::binary_search(set.begin(), set.end(), static_cast<char32_t>(point));
  }));
}

std::string upper(std::string_view text) {
  return replace(
      mapped(text, [](uint32_t point) { return point == kSharpS ? point : upper_of(point); }),
      "\u00DF", "SS", -1);
}
std::string lower(std::string_view text) { return mapped(text, lower_of); }

std::string capitalize(std::string_view text) {
  bool first = true;
  return mapped(text, [&](uint32_t point) {
    return std::exchange(first, false) ? title_of(point) : lower_of(point);
  });
}

std::string title(std::string_view text) {
  bool inside = false;
  return mapped(text, [&](uint32_t point) {
    const uint32_t changed = inside ? lower_of(point) : title_of(point);
    inside = is_cased(point);
    return changed;
  });
}

std::string title_words(std::string_view text) {
  // Words begin after -, white space and opening brackets, and nowhere else.
  bool inside = false;
  return mapped(text, [&](uint32_t point) {
    const bool between = is_space(point) || point == '-' || point == '(' || point == '{' ||
                         point == '[' || point == '<';
    if (between) {
      inside = false;
      return point;
    }
    return std::exchange(inside, true) ? lower_of(point) : upper_of(point);
  });
}

std::string replace(std::string_view text, std::string_view old, std::string_view with,
                    int64_t count) {
  std::string result;
  if (old.empty()) {
    // Before every character and at the end.
    while (count != 0) {
      result += with;
      --count;
      if (text.empty()) break;
      const size_t length = decode_utf8(text).length;
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
    return result.append(text);
  }
  while (count != 0) {
    const size_t at = text.find(old);
    if (at == text.npos) break;
    result.append(text.substr(0, at)).append(with);
    text.remove_prefix(at + old.size());
    --count;
  }
  return result.append(text);
}

std::vector<std::string> split_space(std::string_view text, int64_t count, bool from_right) {
  std::vector<std::string> parts;
  const Ends before = from_right ? Ends::kRight : Ends::kLeft;
  for (text = strip_space(text, before); !text.empty(); text = strip_space(text, before)) {
    if (count == 0) {
      parts.emplace_back(text);
      break;
    }
    --count;
    std::string_view word = text;
    if (from_right) {
      size_t begin = text.size();
      while (begin > 0) {
        const size_t at = last_begin(text.substr(0, begin));
        if (is_space(decode_utf8(text.substr(at)).code_point)) break;
        begin = at;
      }
      word = text.substr(begin);
      text = text.substr(0, begin);
    } else {
      size_t end = 0;
      while (end < text.size()) {
        const auto decoded = decode_utf8(text.substr(end));
        if (is_space(decoded.code_point)) break;
        end += decoded.length;
      }
      word = text.substr(0, end);
      text.remove_prefix(end);
    }
    parts.emplace_back(word);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t count,
                                  bool from_right) {
  std::vector<std::string> parts;
  while (count != 0) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == text.npos) break;
    --count;
    if (from_right) {
      parts.emplace_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    } else {
      parts.emplace_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto decoded = decode_utf8(text.substr(at));
    size_t next = at + decoded.length;
    if (is_line_end(decoded.code_point)) {
      if (text[at] == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.emplace_back(text.substr(begin, (keep_ends ? next : at) - begin));
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

}  // namespace mainstem::chat
