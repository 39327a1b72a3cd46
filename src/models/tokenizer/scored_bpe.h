#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/tokenizer/missing_pieces.h"
#include "models/tokenizer/model.h"
#include "models/tokenizer/spec.h"
#include "models/tokenizer/token_trie.h"
#include "models/tokenizer/vocab.h"

namespace mainstem::tokenizer {

/// SentencePiece's byte-pair encoding: of all neighbours whose joint text is a token, those with
/// the highest score merge first, the leftmost of equals. User-defined tokens are found before and
/// never merge; unused ones only serve as steps to others (src/bpe_model.cc of sentencepiece;
/// llm_tokenizer_spm of llama.cpp).
class ScoredBpe final : public Model {
 public:
  ScoredBpe(const TokenizerSpec& spec, const Vocab& vocab);
  void encode(std::string_view word, EncodeContext& context,
              std::vector<int64_t>& ids) const override;

 private:
  class Merging;

  /// The id of a text that a merge may lead to; -1 if there is none.
  int32_t find_piece(std::string_view text) const;

  const Vocab& vocab_;
  std::vector<uint32_t> ranks_;  // [V] by falling score
  TokenTrie user_defined_;
  bool has_unused_ = false;
  MissingPieces missing_;
};

}  // namespace mainstem::tokenizer
