#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/charsmap.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/token_trie.h"

namespace mainstem::tokenizer {

class SentencePiecePass final : public NormalizerPass {
 public:
  explicit SentencePiecePass(const SentencePieceStep& step);
  std::string apply(std::string_view text, bool at_start, Matcher& matcher) const override;

 private:
  struct Prefix {
    size_t length;  ///< of the text
    std::string_view normalized;
  };
  /// The first rule, or the first character, of a text that is not empty.
  Prefix normalize_prefix(std::string_view text) const;

  SentencePieceStep step_;
  std::optional<Charsmap> map_;
  TokenTrie user_defined_;
};

}  // namespace mainstem::tokenizer
