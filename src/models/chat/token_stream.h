#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "io/text.h"
#include "mainstem/error.h"
#include "models/chat/lexer.h"

namespace mainstem::chat {

/// The tokens of a template while they are parsed.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_op(std::string_view op) const { return matches(current(), TokenKind::kOperator, op); }
  bool is_name(std::string_view name) const { return matches(current(), TokenKind::kName, name); }
  static bool matches(const Token& token, TokenKind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }

  Token take() {
    Token token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_op(std::string_view op) { return is_op(op) && (take(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (take(), true); }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) refuse(quote(op));
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) refuse(quote(name));
  }
  Token expect(TokenKind kind, const char* expected) {
    if (!is(kind)) refuse(expected);
    return take();
  }

  size_t position() const { return at_; }
  /// Is there such a name between a position and here?
  bool had_name(std::string_view name, size_t since) const {
    return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(since),
                       tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                       [&](const Token& token) { return matches(token, TokenKind::kName, name); });
  }

  [[noreturn]] void refuse(std::string expected) const { refuse(std::move(expected), shown()); }
  [[noreturn]] void refuse(std::string expected, std::string got) const {
    throw bad_input("chat template", std::move(expected), std::move(got))
        .in("line " + std::to_string(current().line));
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    refuse("what is supported here", what);
  }

 private:
  std::string shown() const {
    switch (current().kind) {
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kData:
        return "text";
      default:
        return quote(current().text);
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace mainstem::chat
