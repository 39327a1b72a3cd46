#include "models/chat/lexer.h"

#include <algorithm>
#include <cctype>

#include "io/text.h"
#include "mainstem/error.h"
#include "models/chat/numbers.h"
#include "models/chat/python_text.h"
#include "models/chat/string_literal.h"

namespace mainstem::chat {
namespace {

// The longest first.
constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

/// Line ends become \n; the last one is left out.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) outside();
    add(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(std::string expected, std::string got) const {
    throw bad_input("chat template", std::move(expected), std::move(got))
        .in("line " + std::to_string(line_));
  }
  void add(TokenKind kind, std::string text) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .line = line_});
  }
  void skip(size_t length) {
    const std::string_view passed = rest_.substr(0, length);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) line_starting_ = passed.back() == '\n';
    rest_.remove_prefix(length);
  }
  void skip_space() { skip(rest_.size() - strip_space(rest_, Ends::kLeft).size()); }
  bool skip_sign() {
    if (!rest_.starts_with('-') && !rest_.starts_with('+')) return false;
    skip(1);
    return true;
  }

  /// Text up to the next tag, and the tag's beginning.
  void outside() {
    const size_t at = next_tag(0);
    if (at == rest_.npos) return add_data(rest_.size(), rest_.size());
    const char kind = rest_[at + 1];
    const char sign = at + 2 < rest_.size() ? rest_[at + 2] : ' ';
    add_data(at, kept(at, sign, kind != '{'));
    if (kind == '{') return inside(TokenKind::kVariableBegin, TokenKind::kVariableEnd, "}}");
    if (kind == '#') return comment();
    if (!raw()) inside(TokenKind::kBlockBegin, TokenKind::kBlockEnd, "%}");
  }
  size_t next_tag(size_t from) const {
    for (size_t at = rest_.find('{', from); at != rest_.npos; at = rest_.find('{', at + 1)) {
      if (at + 1 < rest_.size() &&
          std::string_view("{%#").find(rest_[at + 1]) != std::string_view::npos) {
        return at;
      }
    }
    return rest_.npos;
  }
  /// How much of the text before a tag stays.
  size_t kept(size_t length, char sign, bool may_strip_line) const {
    const std::string_view text = rest_.substr(0, length);
    if (sign == '-') return strip_space(text, Ends::kRight).size();
    if (sign == '+' || !may_strip_line) return length;
    const size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
    if (line == 0 && !line_starting_) return length;
    return strip_space(text.substr(line), Ends::kLeft).empty() ? line : length;
  }
  void add_data(size_t length, size_t kept_length) {
    if (kept_length > 0) add(TokenKind::kData, std::string(rest_.substr(0, kept_length)));
    skip(length);
  }

  /// The end of a tag at the front of the rest: its length with the white space that goes with it.
  size_t end_length(std::string_view end, bool trims) const {
    std::string_view text = rest_;
    bool strips = false;
    if (text.starts_with('-')) {
      strips = true;
      text.remove_prefix(1);
    } else if (text.starts_with('+') && trims) {
      return text.substr(1).starts_with(end) ? 1 + end.size() : 0;
    }
    if (!text.starts_with(end)) return 0;
    text.remove_prefix(end.size());
    if (strips) {
      text = strip_space(text, Ends::kLeft);
    } else if (trims && text.starts_with('\n')) {
      text.remove_prefix(1);
    }
    return rest_.size() - text.size();
  }

  void comment() {
    for (size_t at = 2; at < rest_.size(); ++at) {
      if (rest_[at] != '#' && rest_[at] != '-' && rest_[at] != '+') continue;
      const std::string_view whole = rest_;
      rest_ = whole.substr(at);
      const size_t length = end_length("#}", true);
      rest_ = whole;
      if (length > 0) return skip(at + length);
    }
    refuse("the end of a comment, #}", "the end of the template");
  }

  /// {% raw %} … {% endraw %}: text as it is.
  bool raw() {
    const std::string_view start = rest_;
    const int line = line_;
    const bool starting = line_starting_;
    skip(2);
    skip_sign();
    skip_space();
    if (rest_.starts_with("raw")) {
      skip(3);
      skip_space();
      if (const size_t length = end_length("%}", false); length > 0) {
        skip(length);
        raw_text();
        return true;
      }
    }
    rest_ = start;
    line_ = line;
    line_starting_ = starting;
    return false;
  }
  void raw_text() {
    for (size_t at = rest_.find("{%"); at != rest_.npos; at = rest_.find("{%", at + 1)) {
      std::string_view tag = rest_.substr(at + 2);
      const char sign = tag.empty() ? ' ' : tag[0];
      if (sign == '-' || sign == '+') tag.remove_prefix(1);
      tag = strip_space(tag, Ends::kLeft);
      if (!tag.starts_with("endraw")) continue;
      tag = strip_space(tag.substr(6), Ends::kLeft);
      const std::string_view whole = rest_;
      rest_ = tag;
      const size_t length = end_length("%}", true);
      rest_ = whole;
      if (length == 0) continue;
      const size_t end = rest_.size() - tag.size() + length;
      const size_t stays = kept(at, sign, true);
      if (stays > 0) add(TokenKind::kData, std::string(rest_.substr(0, stays)));
      return skip(end);
    }
    refuse("{% endraw %}", "the end of the template");
  }

  void inside(TokenKind begin, TokenKind end_kind, std::string_view end) {
    add(begin, std::string(rest_.substr(0, 2)));
    skip(2);
    skip_sign();
    std::string open;  // brackets that wait for their other half
    while (true) {
      skip_space();
      if (rest_.empty()) refuse("the end of a tag, " + std::string(end), "the end of the template");
      if (open.empty()) {
        if (const size_t length = end_length(end, end_kind == TokenKind::kBlockEnd); length > 0) {
          add(end_kind, std::string(end));
          return skip(length);
        }
      }
      one_token(open);
    }
  }

  void one_token(std::string& open) {
    const char c = rest_[0];
    if (is_digit(c)) return number();
    if (is_name_byte(c)) return name();
    if (c == '"' || c == '\'') return string();
    for (const std::string_view op : kOperators) {
      if (!rest_.starts_with(op)) continue;
      balance(op[0], open);
      add(TokenKind::kOperator, std::string(op));
      return skip(op.size());
    }
    refuse("an expression", quote(rest_.substr(0, 1)));
  }
  void balance(char c, std::string& open) const {
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (const size_t at = kOpen.find(c); at != kOpen.npos) open += kClose[at];
    if (kClose.find(c) == kClose.npos) return;
    if (open.empty() || open.back() != c) {
      refuse(open.empty() ? "no closing bracket" : quote(open.substr(open.size() - 1)),
             quote(std::string_view(&c, 1)));
    }
    open.pop_back();
  }
  void name() {
    size_t length = 0;
    while (length < rest_.size() && is_name_byte(rest_[length])) ++length;
    const std::string_view text = rest_.substr(0, length);
    if (std::any_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; })) {
      refuse("names of ASCII letters, digits and _", quote(text));
    }
    add(TokenKind::kName, std::string(text));
    skip(length);
  }
  void string() {
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != rest_[0]) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) refuse("the end of a string", "the end of the template");
    const std::string_view body = rest_.substr(1, end - 1);
    add(TokenKind::kString,
        with_context("line " + std::to_string(line_), [&] { return unescape(body); }));
    skip(end + 1);
  }

  /// Digits with single underscores between them.
  size_t digits(size_t from) const {
    size_t at = from;
    while (at < rest_.size() &&
           (is_digit(rest_[at]) || (rest_[at] == '_' && at > from && at + 1 < rest_.size() &&
                                    is_digit(rest_[at + 1]) && is_digit(rest_[at - 1])))) {
      ++at;
    }
    return at - from;
  }
  size_t float_length() const {
    if (!tokens_.empty() && tokens_.back().text == "." &&
        tokens_.back().kind == TokenKind::kOperator && rest_.data()[-1] == '.') {
      return 0;  // the second index in x.0.1
    }
    size_t at = digits(0);
    bool is_float = false;
    if (at < rest_.size() && rest_[at] == '.' && digits(at + 1) > 0) {
      at += 1 + digits(at + 1);
      is_float = true;
    }
    if (at < rest_.size() && (rest_[at] | 0x20) == 'e') {
      const size_t sign =
          at + 1 < rest_.size() && (rest_[at + 1] == '+' || rest_[at + 1] == '-') ? 1 : 0;
      if (const size_t more = digits(at + 1 + sign); more > 0) {
        at += 1 + sign + more;
        is_float = true;
      }
    }
    return is_float ? at : 0;
  }
  size_t integer_length() const {
    const auto of_base = [&](std::string_view allowed) {
      size_t at = 2;
      while (at < rest_.size()) {
        const size_t digit = rest_[at] == '_' ? at + 1 : at;
        if (digit >= rest_.size() || allowed.find(rest_[digit]) == allowed.npos) break;
        at = digit + 1;
      }
      return at > 2 ? at : 0;
    };
    size_t length = 0;
    if (rest_[0] == '0' && rest_.size() > 1) {
      const char kind = static_cast<char>(rest_[1] | 0x20);
      if (kind == 'b') length = of_base("01");
      if (kind == 'o') length = of_base("01234567");
      if (kind == 'x') length = of_base("0123456789abcdefABCDEF");
      if (length > 0) return length;
    }
    if (rest_[0] != '0') return digits(0);
    // Nothing but zeros follows a zero.
    length = 1;
    while (length < rest_.size() &&
           (rest_[length] == '0' ||
            (rest_[length] == '_' && length + 1 < rest_.size() && rest_[length + 1] == '0'))) {
      ++length;
    }
    return length;
  }
  void number() {
    const size_t as_float = float_length();
    const size_t length = as_float > 0 ? as_float : integer_length();
    const std::string text(rest_.substr(0, length));
    add(as_float > 0 ? TokenKind::kFloat : TokenKind::kInteger, text);
    const bool good = with_context("line " + std::to_string(line_), [&] {
      return as_float > 0 ? parse_float(text, tokens_.back().number)
                          : parse_integer(text, 0, tokens_.back().integer);
    });
    if (!good) refuse("a number", quote(text));
    skip(length);
  }

  std::string source_;
  std::string_view rest_;
  std::vector<Token> tokens_;
  int line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (const size_t valid = valid_utf8_prefix(source); valid != source.size()) {
    throw bad_input("chat template", "UTF-8", "another byte at " + std::to_string(valid));
  }
  return Lexer(source).run();
}

}  // namespace mainstem::chat
