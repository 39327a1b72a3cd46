#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/tokenizer.h"
#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/byte_tokens.h"
#include "models/tokenizer/model.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/pretokenizer.h"
#include "models/tokenizer/spec.h"
#include "models/tokenizer/vocab.h"

namespace mainstem::tokenizer {

/// The steps of encoding, in order: added tokens in the text, normalisation, added tokens in the
/// normalised text, pre-tokenizer, model; then what belongs around every text.
class Pipeline {
 public:
  explicit Pipeline(TokenizerSpec spec);

  /// `work`, if given, is what the model did (see EncodeContext).
  std::vector<int64_t> encode(std::string_view text, const EncodeOptions& options,
                              uint64_t* work = nullptr) const;

  const Vocab& vocab() const { return vocab_; }
  /// Largest id plus one.
  int64_t size() const { return size_; }
  const DecoderSpec& decoder() const { return decoder_; }
  bool is_special(int64_t id) const { return special_[static_cast<size_t>(id)]; }
  std::optional<int64_t> find(std::string_view text) const;

  std::optional<int64_t> bos_id, eos_id, unknown_id, padding_id;
  std::vector<int64_t> end_ids, prefix_ids, suffix_ids;
  std::vector<std::string> rules;

 private:
  struct Work;
  void check_ids(const TokenizerSpec& spec);
  void make_model(const TokenizerSpec& spec);
  void encode_segment(std::string_view text, bool at_start, bool parse_special, Work& work) const;

  Vocab vocab_;
  int64_t size_;  // of the vocabulary without the tokens that have no id
  std::optional<int64_t> missing_id_;
  std::vector<bool> special_;
  std::unique_ptr<const Model> model_;
  Normalizer normalizer_;
  PreTokenizer pretokenizer_;
  DecoderSpec decoder_;
  ByteTokens byte_tokens_;
  bool takes_any_bytes_ = true;  // else what is not UTF-8 is replaced first
  AddedTokens added_, added_normalized_;
};

}  // namespace mainstem::tokenizer
