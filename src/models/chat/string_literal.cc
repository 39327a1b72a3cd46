#include "models/chat/string_literal.h"

#include <charconv>
#include <cstdint>

#include "io/text.h"
#include "mainstem/error.h"
#include "models/tokenizer/unicode.h"

namespace mainstem::chat {
namespace {

class Unescaper {
 public:
  explicit Unescaper(std::string_view body) : rest_(body) {}

  std::string run() {
    while (!rest_.empty()) {
      const size_t plain = std::min(rest_.find('\\'), rest_.size());
      text_ += rest_.substr(0, plain);
      rest_.remove_prefix(plain);
      if (!rest_.empty()) escape();
    }
    return std::move(text_);
  }

 private:
  void escape() {
    const char c = rest_.size() > 1 ? rest_[1] : '\\';
    constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t at = kLetters.find(c); at != kLetters.npos) {
      text_ += kMeanings[at];
      rest_.remove_prefix(2);
    } else if (c == '\n') {
      rest_.remove_prefix(2);
    } else if (c >= '0' && c <= '7') {
      octal();
    } else if (c == 'x' || c == 'u' || c == 'U') {
      hexadecimal(c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N') {
      throw bad_input("string in a chat template", "no escape \\N{…}: it is not supported", "one");
    } else {
      // Not an escape: the backslash stays.
      text_ += '\\';
      rest_.remove_prefix(1);
    }
  }
  void octal() {
    rest_.remove_prefix(1);
    uint32_t point = 0;
    for (int i = 0; i < 3 && !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '7'; ++i) {
      point = point * 8 + static_cast<uint32_t>(rest_[0] - '0');
      rest_.remove_prefix(1);
    }
    append(point);
  }
  void hexadecimal(size_t digits) {
    uint32_t point = 0;
    const std::string_view number = rest_.substr(2, digits);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), point, 16);
    if (number.size() != digits || error != std::errc() || end != number.data() + digits) {
      throw bad_input("string in a chat template", "a whole escape",
                      quote(rest_.substr(0, 2 + digits)));
    }
    rest_.remove_prefix(2 + digits);
    append(point);
  }
  void append(uint32_t point) {
    if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) {
      throw bad_input("string in a chat template", "escapes of Unicode characters", "another");
    }
    tokenizer::append_utf8(point, text_);
  }

  std::string_view rest_;
  std::string text_;
};

}  // namespace

std::string unescape(std::string_view body) { return Unescaper(body).run(); }

}  // namespace mainstem::chat
