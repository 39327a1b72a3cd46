#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/tokenizer/spec.h"

namespace mainstem::tokenizer {

/// A stretch of text: an added token, or (id -1) text between them.
struct Segment {
  std::string_view text;
  int64_t id = -1;
};

/// Finds added tokens in text: from left to right, the longest that begins at a place. Flags as
/// AddedVocabulary of tokenizers 0.23.3. (llama.cpp looks for the longest token of all first,
/// which differs where two tokens overlap; so far no model's do.)
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Cuts `text` and appends to `segments`. With `parse_special` false control tokens are text.
  void split(std::string_view text, bool parse_special, std::vector<Segment>& segments) const;
  const AddedToken* find(std::string_view content) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string_view, size_t> by_content_;
  std::array<std::vector<uint32_t>, 256> lengths_;  // by first byte, falling
};

}  // namespace mainstem::tokenizer
