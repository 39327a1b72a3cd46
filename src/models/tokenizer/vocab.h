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

/// The texts of all tokens, what they decode to, and the way back from text to ids.
class Vocab {
 public:
  /// In a byte-level vocabulary the texts of normal tokens are translated from byte-level
  /// characters to bytes; a text with a character outside that alphabet, and all other tokens,
  /// stand for themselves.
  explicit Vocab(const TokenizerSpec& spec);

  int64_t size() const { return static_cast<int64_t>(kinds_.size()); }
  /// What the model looks for.
  std::string_view text(int32_t id) const { return texts_[id]; }
  /// What the token decodes to, before tokens are joined.
  std::string_view bytes(int32_t id) const { return translated_ ? decoded_[id] : texts_[id]; }
  TokenKind kind(int32_t id) const { return kinds_[static_cast<size_t>(id)]; }
  /// The id of a token by its text, normal tokens first; -1 if there is none.
  int32_t find(std::string_view text) const;
  /// The same among the model's own tokens, without those that an added token alone defines.
  int32_t find_own(std::string_view text) const {
    const int32_t id = find(text);
    return id >= 0 && own_[static_cast<size_t>(id)] ? id : -1;
  }
  /// Of the longest token in bytes.
  size_t longest() const { return longest_; }

 private:
  /// Texts one after another.
  struct Texts {
    std::string arena;
    std::vector<uint32_t> ends = {0};  // [V + 1], text i lies in [ends[i], ends[i + 1])
    std::string_view operator[](int32_t id) const {
      const auto i = static_cast<size_t>(id);
      return std::string_view(arena).substr(ends[i], ends[i + 1] - ends[i]);
    }
  };
  void translate(const TokenizerSpec& spec);
  /// The slot that holds `text`, or the free one where it would go.
  size_t slot_of(std::string_view text) const;

  Texts texts_, decoded_;
  bool translated_ = false;  // else both are the same
  std::vector<TokenKind> kinds_;
  std::vector<bool> own_;
  size_t longest_ = 0;
  std::vector<int32_t> slots_;  // open addressing, -1 is free
};

/// Translates a token's text from byte-level characters; false if it holds any other character.
bool append_token_bytes(std::string_view text, std::string& out);

}  // namespace mainstem::tokenizer
