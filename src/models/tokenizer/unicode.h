#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem::tokenizer {

constexpr uint32_t kCodePointCount = 0x110000;

/// One code point at the start of a text, or one byte that begins none.
struct DecodedCodePoint {
  uint32_t code_point;  ///< U+FFFD where the byte is not UTF-8
  uint32_t length;      ///< bytes taken, at least 1
  bool valid;
};

/// `text` must not be empty. Surrogates, overlong forms and values above U+10FFFF are not UTF-8;
/// every byte of such a sequence is taken alone.
DecodedCodePoint decode_utf8(std::string_view text);

void append_utf8(uint32_t code_point, std::string& out);

/// How many bytes at the end of `text` may be the start of a character that is not yet complete
/// (0 to 3).
size_t incomplete_utf8_suffix(std::string_view text);

/// Each maximal broken sequence becomes one U+FFFD (Unicode 16, section 3.9, table 3-8).
std::string replace_invalid_utf8(std::string_view text);

/// The last code point of a text that is not empty, and how many bytes it takes.
uint32_t last_code_point(std::string_view text, size_t& length);

/// How many bytes of white space (the property White_Space) stand at an end of the text.
size_t white_space_at_start(std::string_view text);
size_t white_space_at_end(std::string_view text);

/// Half-open.
struct CodePointRange {
  uint32_t begin, end;
  friend bool operator==(const CodePointRange&, const CodePointRange&) = default;
};

/// A set of code points: sorted ranges that neither touch nor overlap.
class CodePointSet {
 public:
  CodePointSet() = default;
  static CodePointSet single(uint32_t code_point);
  static CodePointSet range(uint32_t first, uint32_t last);
  /// Bit i of the mask chooses category i, in the order of tools/make_unicode_tables.py.
  static CodePointSet categories(uint32_t mask);
  /// \s: the property White_Space.
  static CodePointSet white_space();
  /// \w inside a class: letters, marks, decimal and letter numbers, connectors, and the symbols
  /// with Other_Alphabetic.
  static CodePointSet word();
  /// \w outside a class. Oniguruma (in tokenizers 0.23.3) then also takes the superscripts and
  /// fractions of Latin-1.
  static CodePointSet word_outside_class();

  void add(const CodePointSet& other);
  CodePointSet complement() const;
  bool contains(uint32_t code_point) const;
  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  friend bool operator==(const CodePointSet&, const CodePointSet&) = default;

 private:
  std::vector<CodePointRange> ranges_;
};

/// The mask for `\p{name}`: a major class ("L"), a category ("Lu"); 0 if there is none such.
uint32_t category_mask(std::string_view name);

}  // namespace mainstem::tokenizer
