#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/spec.h"

namespace mainstem::tokenizer {

/// The bytes of every token and the way back from bytes to ids.
class Vocab {
 public:
  /// Texts of normal tokens are translated from byte-level characters; a text with a character
  /// outside that alphabet, and all other tokens, stand for themselves.
  explicit Vocab(const TokenizerSpec& spec);

  int64_t size() const { return static_cast<int64_t>(kinds_.size()); }
  std::string_view bytes(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(arena_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }
  TokenKind kind(int32_t id) const { return kinds_[static_cast<size_t>(id)]; }
  /// The id of a token by its bytes, normal tokens first; -1 if there is none.
  int32_t find(std::string_view bytes) const;

 private:
  /// The slot that holds `bytes`, or the free one where it would go.
  size_t slot_of(std::string_view bytes) const;

  std::string arena_;
  std::vector<uint32_t> ends_;  // [V + 1], token i lies in [ends_[i], ends_[i + 1])
  std::vector<TokenKind> kinds_;
  std::vector<int32_t> slots_;  // open addressing, -1 is free
};

/// Translates a token's text from byte-level characters; false if it holds any other character.
bool append_token_bytes(std::string_view text, std::string& out);

}  // namespace mainstem::tokenizer
