#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mainstem::tokenizer {

/// The rules "this text becomes that" of a SentencePiece model (`precompiled_charsmap`): the
/// length of a double array in bytes, the array (Darts-clone: units of 32 bits, little-endian),
/// and the texts that its values point to, each ended by a zero byte.
class Charsmap {
 public:
  struct Match {
    size_t length;  ///< of the text that is replaced
    std::string_view replacement;
  };

  /// Error(kBadInput) if the parts do not fit. Whatever the array then holds, no step leaves it.
  explicit Charsmap(std::string blob);

  std::optional<Match> longest(std::string_view text) const { return find(text, true); }
  std::optional<Match> shortest(std::string_view text) const { return find(text, false); }

 private:
  std::optional<Match> find(std::string_view text, bool longest) const;
  uint32_t unit(size_t index) const;

  std::string blob_;
  size_t unit_count_;
  std::string_view texts_;
};

}  // namespace mainstem::tokenizer
