#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/tokenizer/missing_pieces.h"
#include "models/tokenizer/model.h"
#include "models/tokenizer/spec.h"
#include "models/tokenizer/token_trie.h"
#include "models/tokenizer/vocab.h"

namespace mainstem::tokenizer {

/// The cut of a text into tokens whose scores (log-probabilities) have the largest sum, by dynamic
/// programming over its ends (Kudo 2018, section 3.2). A character that no token covers may stand
/// alone for the lowest score minus 10. Source: models/unigram of tokenizers 0.23.3, whose sums are
/// doubles; EncodeOptimized in src/unigram_model.cc of sentencepiece, whose sums are floats.
class Unigram final : public Model {
 public:
  Unigram(const TokenizerSpec& spec, const Vocab& vocab);
  void encode(std::string_view word, EncodeContext& context,
              std::vector<int64_t>& ids) const override;

 private:
  template <typename Sum>
  void encode_with(std::string_view word, EncodeContext& context, std::vector<int64_t>& ids) const;

  TokenTrie trie_;
  std::vector<double> scores_;      // [V]
  std::vector<bool> user_defined_;  // [V] such tokens are always chosen
  double unknown_score_ = 0;
  double highest_ = 0;  // of normal tokens
  bool single_precision_;
  MissingPieces missing_;
};

}  // namespace mainstem::tokenizer
