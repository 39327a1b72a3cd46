#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/tokenizer/spec.h"
#include "models/tokenizer/tokenizer_json.h"

// The sections of a tokenizer.json. Only their structure counts. Every type and key that is not
// known is an Error that names it.

namespace mainstem::tokenizer {

/// The section `model`, and the tokens of `added_tokens`. BPE is taken for one of characters.
void read_model(const TokenizerJson& file, TokenizerSpec& spec);

/// The section `normalizer`: NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace,
/// Prepend, BertNormalizer, Precompiled and Sequence.
std::vector<NormalizerStep> read_normalizer(const nlohmann::json& section);

/// The section `pre_tokenizer`: Split, Digits, Punctuation, ByteLevel, Metaspace, BertPreTokenizer,
/// Whitespace, WhitespaceSplit and Sequence.
struct JsonStages {
  std::vector<SplitStage> stages;
  bool byte_level = false;  ///< there was a ByteLevel
};
JsonStages read_stages(const nlohmann::json& section);

/// The section `decoder`: Replace, ByteFallback, Fuse, Strip, Metaspace, WordPiece, ByteLevel and
/// Sequence.
struct JsonDecoder {
  DecoderSpec spec;
  bool byte_level = false;
};
JsonDecoder read_decoder(const nlohmann::json& section);

/// The section `post_processor`, as ids before and after the text: TemplateProcessing,
/// BertProcessing, RobertaProcessing, ByteLevel and Sequence.
void read_post_processor(const nlohmann::json& section, TokenizerSpec& spec);

}  // namespace mainstem::tokenizer
