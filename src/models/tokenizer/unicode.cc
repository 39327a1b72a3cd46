#include "models/tokenizer/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace mainstem::tokenizer {
namespace {

constexpr uint32_t kCategoryRuns[] = {
#include "models/tokenizer/unicode_tables.inc"
};
constexpr int kCategoryBits = 5;
constexpr int kCategoryCount = 30;

// In the order of tools/make_unicode_tables.py.
constexpr std::string_view kCategoryNames[kCategoryCount] = {
    "Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
    "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

/// The bytes that may follow a lead byte, and how many there are in all.
struct Lead {
  uint32_t length;    // 0: no lead byte
  uint8_t low, high;  // bounds of the second byte; all later ones are 80..BF
};

constexpr Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

/// How many bytes of the sequence that begins `text` are right; equals the lead's length for a
/// whole character, 0 if there is no lead byte.
uint32_t valid_part(std::string_view text, const Lead& lead) {
  if (lead.length == 0) return 0;
  uint32_t part = 1;
  while (part < lead.length && part < text.size()) {
    const auto byte = static_cast<uint8_t>(text[part]);
    const uint8_t low = part == 1 ? lead.low : uint8_t{0x80};
    const uint8_t high = part == 1 ? lead.high : uint8_t{0xBF};
    if (byte < low || byte > high) break;
    ++part;
  }
  return part;
}

}  // namespace

DecodedCodePoint decode_utf8(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = lead_of(first);
  if (lead.length == 0 || valid_part(text, lead) != lead.length) return {0xFFFD, 1, false};
  uint32_t code_point = first & (0x7Fu >> lead.length);
  for (uint32_t i = 1; i < lead.length; ++i) {
    code_point = code_point << 6 | (static_cast<uint8_t>(text[i]) & 0x3Fu);
  }
  return {code_point, lead.length, true};
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

size_t incomplete_utf8_suffix(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(3, text.size()); ++length) {
    const std::string_view suffix = text.substr(text.size() - length);
    const Lead lead = lead_of(static_cast<uint8_t>(suffix[0]));
    if (lead.length > length && valid_part(suffix, lead) == length) return length;
  }
  return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Lead lead = lead_of(static_cast<uint8_t>(text[0]));
    const uint32_t part = valid_part(text, lead);
    if (part != 0 && part == lead.length) {
      out.append(text.substr(0, part));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    text.remove_prefix(std::max(part, 1u));
  }
  return out;
}

uint32_t last_code_point(std::string_view text, size_t& length) {
  for (length = 1; length <= std::min<size_t>(4, text.size()); ++length) {
    const DecodedCodePoint decoded = decode_utf8(text.substr(text.size() - length));
    if (decoded.valid && decoded.length == length) return decoded.code_point;
  }
  length = 1;
  return 0xFFFD;
}

size_t white_space_at_start(std::string_view text) {
  static const CodePointSet kSpace = CodePointSet::white_space();
  size_t count = 0;
  while (count < text.size()) {
    const DecodedCodePoint next = decode_utf8(text.substr(count));
    if (!kSpace.contains(next.code_point)) break;
    count += next.length;
  }
  return count;
}

size_t white_space_at_end(std::string_view text) {
  static const CodePointSet kSpace = CodePointSet::white_space();
  size_t count = 0;
  for (size_t length = 0; count < text.size(); count += length) {
    if (!kSpace.contains(last_code_point(text.substr(0, text.size() - count), length))) break;
  }
  return count;
}

CodePointSet CodePointSet::single(uint32_t code_point) { return range(code_point, code_point); }

CodePointSet CodePointSet::range(uint32_t first, uint32_t last) {
  CodePointSet set;
  set.ranges_ = {{first, last + 1}};
  return set;
}

CodePointSet CodePointSet::categories(uint32_t mask) {
  CodePointSet set;
  const size_t count = std::size(kCategoryRuns);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t category = kCategoryRuns[i] & ((1u << kCategoryBits) - 1);
    if ((mask >> category & 1) == 0) continue;
    const uint32_t begin = kCategoryRuns[i] >> kCategoryBits;
    const uint32_t end = i + 1 < count ? kCategoryRuns[i + 1] >> kCategoryBits : kCodePointCount;
    if (!set.ranges_.empty() && set.ranges_.back().end == begin) {
      set.ranges_.back().end = end;
    } else {
      set.ranges_.push_back({begin, end});
    }
  }
  return set;
}

CodePointSet CodePointSet::white_space() {
  CodePointSet set;
  set.ranges_ = {{0x09, 0x0E},     {0x20, 0x21},     {0x85, 0x86},     {0xA0, 0xA1},
                 {0x1680, 0x1681}, {0x2000, 0x200B}, {0x2028, 0x202A}, {0x202F, 0x2030},
                 {0x205F, 0x2060}, {0x3000, 0x3001}};
  return set;
}

CodePointSet CodePointSet::word() {
  CodePointSet set = categories(category_mask("L") | category_mask("M") | category_mask("Nd") |
                                category_mask("Nl") | category_mask("Pc"));
  CodePointSet circled;
  circled.ranges_ = {{0x24B6, 0x24EA}, {0x1F130, 0x1F14A}, {0x1F150, 0x1F16A}, {0x1F170, 0x1F18A}};
  set.add(circled);
  return set;
}

CodePointSet CodePointSet::word_outside_class() {
  CodePointSet set = word();
  CodePointSet latin1;
  latin1.ranges_ = {{0xB2, 0xB4}, {0xB9, 0xBA}, {0xBC, 0xBF}};
  set.add(latin1);
  return set;
}

void CodePointSet::add(const CodePointSet& other) {
  std::vector<CodePointRange> all;
  all.reserve(ranges_.size() + other.ranges_.size());
  std::merge(ranges_.begin(), ranges_.end(), other.ranges_.begin(), other.ranges_.end(),
             std::back_inserter(all),
             [](const CodePointRange& a, const CodePointRange& b) { return a.begin < b.begin; });
  ranges_.clear();
  for (const CodePointRange& range : all) {
    if (!ranges_.empty() && range.begin <= ranges_.back().end) {
      ranges_.back().end = std::max(ranges_.back().end, range.end);
    } else {
      ranges_.push_back(range);
    }
  }
}

CodePointSet CodePointSet::complement() const {
  CodePointSet set;
  uint32_t begin = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.begin > begin) set.ranges_.push_back({begin, range.begin});
    begin = range.end;
  }
  if (begin < kCodePointCount) set.ranges_.push_back({begin, kCodePointCount});
  return set;
}

bool CodePointSet::contains(uint32_t code_point) const {
  auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), code_point,
      [](uint32_t value, const CodePointRange& range) { return value < range.begin; });
  return after != ranges_.begin() && code_point < std::prev(after)->end;
}

uint32_t category_mask(std::string_view name) {
  uint32_t mask = 0;
  for (int i = 0; i < kCategoryCount; ++i) {
    const bool match =
        name.size() == 1 ? kCategoryNames[i][0] == name[0] : kCategoryNames[i] == name;
    if (match) mask |= 1u << i;
  }
  return mask;
}

}  // namespace mainstem::tokenizer
