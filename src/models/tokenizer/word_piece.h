#pragma once

#include <optional>

#include "models/tokenizer/model.h"
#include "models/tokenizer/spec.h"
#include "models/tokenizer/token_trie.h"
#include "models/tokenizer/vocab.h"

namespace mainstem::tokenizer {

/// The longest token that begins a word, then the longest that continues it ("##ing"), and so on.
/// A word for which this comes to no end is unknown as a whole, and so is one that is too long
/// (models/wordpiece of tokenizers 0.23.3; Wu et al. 2016, section 4.1).
class WordPiece final : public Model {
 public:
  WordPiece(const TokenizerSpec& spec, const Vocab& vocab);
  void encode(std::string_view word, EncodeContext& context,
              std::vector<int64_t>& ids) const override;

 private:
  TokenTrie first_, next_;
  std::optional<int64_t> missing_id_;
  size_t max_characters_;
};

}  // namespace mainstem::tokenizer
