#include "cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/number_text.h"

namespace mainstem::cli {
namespace {

constexpr char32_t kBroken = 0xFFFFFFFF;

/// The code point at `at`, which moves behind it; kBroken for a byte that starts none.
char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  int more = 0;
  char32_t value = lead;
  char32_t smallest = 0;
  if (lead >= 0xF0 && lead < 0xF8) {
    more = 3, value = lead & 0x07, smallest = 0x10000;
  } else if (lead >= 0xE0 && lead < 0xF0) {
    more = 2, value = lead & 0x0F, smallest = 0x800;
  } else if (lead >= 0xC0 && lead < 0xE0) {
    more = 1, value = lead & 0x1F, smallest = 0x80;
  } else if (lead >= 0x80) {
    ++at;
    return kBroken;
  }
  for (int i = 1; i <= more; ++i) {
    const size_t next = at + static_cast<size_t>(i);
    if (next >= text.size() || (byte(next) & 0xC0) != 0x80) {
      ++at;
      return kBroken;
    }
    value = (value << 6) | (byte(next) & 0x3F);
  }
  if (value < smallest || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
    ++at;
    return kBroken;
  }
  at += static_cast<size_t>(more) + 1;
  return value;
}

template <size_t N>
bool in_ranges(char32_t c, const std::array<std::pair<char32_t, char32_t>, N>& ranges) {
  for (const auto& [first, last] : ranges) {
    if (c >= first && c <= last) return true;
  }
  return false;
}

int code_point_width(char32_t c) {
  static constexpr std::array<std::pair<char32_t, char32_t>, 9> kNone = {{{0x300, 0x36F},
                                                                          {0x483, 0x489},
                                                                          {0x591, 0x5BD},
                                                                          {0x64B, 0x65F},
                                                                          {0x1AB0, 0x1AFF},
                                                                          {0x200B, 0x200F},
                                                                          {0x20D0, 0x20FF},
                                                                          {0xFE00, 0xFE0F},
                                                                          {0xFE20, 0xFE2F}}};
  static constexpr std::array<std::pair<char32_t, char32_t>, 9> kWide = {{{0x1100, 0x115F},
                                                                          {0x2E80, 0x303E},
                                                                          {0x3041, 0xA4CF},
                                                                          {0xAC00, 0xD7A3},
                                                                          {0xF900, 0xFAFF},
                                                                          {0xFE30, 0xFE6F},
                                                                          {0xFF00, 0xFF60},
                                                                          {0x1F300, 0x1FAFF},
                                                                          {0x20000, 0x3FFFD}}};
  if (in_ranges(c, kNone)) return 0;
  return in_ranges(c, kWide) ? 2 : 1;
}

std::string spaces(int count) { return std::string(static_cast<size_t>(std::max(count, 0)), ' '); }

/// Letters to change, add, leave out or exchange with their neighbour (optimal string alignment).
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

int text_width(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\x1b') {
      const size_t end = text.find('m', at);
      at = end == std::string_view::npos ? text.size() : end + 1;
      continue;
    }
    width += code_point_width(next_code_point(text, at));
  }
  return width;
}

std::string pad_right(std::string_view text, int width) {
  return std::string(text) + spaces(width - text_width(text));
}

std::string pad_left(std::string_view text, int width) {
  return spaces(width - text_width(text)) + std::string(text);
}

std::vector<std::string> wrap(std::string_view text, int width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const size_t end = text.find(' ', 1);  // a word with the spaces before it
    std::string_view word = text.substr(0, end);
    text.remove_prefix(word.size());
    if (!lines.back().empty() && text_width(lines.back()) + text_width(word) > width) {
      lines.emplace_back();
      word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
    }
    lines.back() += word;
  }
  return lines;
}

std::string closest(std::string_view word, const std::vector<std::string>& words) {
  constexpr size_t kLongest = 64;  // no name is longer
  if (word.size() > kLongest) return {};
  size_t least = word.size() < 5 ? 2 : 3;
  std::string result;
  for (const std::string& each : words) {
    const size_t edits = edits_between(word, each);
    if (edits >= least) continue;
    least = edits;
    result = each;
  }
  return result;
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (next_code_point(text, at) == kBroken) {
      result += "\xEF\xBF\xBD";
    } else {
      result += text.substr(begin, at - begin);
    }
  }
  return result;
}

std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

std::string count_text(int64_t number, std::string_view what) {
  return fmt::format("{} {}{}", with_commas(number), what, number == 1 ? "" : "s");
}

std::string short_number(double number) { return number_text(number, "{:.5g}"); }

std::string byte_size(double bytes) {
  for (const char* unit : {"bytes", "kB", "MB", "GB"}) {
    if (bytes < 1000 || unit == std::string_view("GB")) {
      return unit == std::string_view("bytes") ? fmt::format("{:.0f} bytes", bytes)
                                               : fmt::format("{:.1f} {}", bytes, unit);
    }
    bytes /= 1000;
  }
  return {};
}

std::string broken_line(const std::string& id, const std::string& how) {
  return id.empty() ? "" : "made wrong on purpose: " + id + ", " + how + "\n";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

}  // namespace mainstem::cli
