#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem::chat {

enum class TokenKind {
  kData,  ///< text outside of tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  ///< of a string: what it means; of others: as written
  int line = 1;
  int64_t integer = 0;
  double number = 0;
};

/// The tokens of a template, with jinja2 3.1.6's rules for white space (trim_blocks and
/// lstrip_blocks are on, as transformers sets them); the last one is kEnd. An Error (bad input)
/// names the line.
std::vector<Token> tokenize(std::string_view source);

}  // namespace mainstem::chat
