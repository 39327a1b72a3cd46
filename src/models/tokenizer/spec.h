#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/decoder.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/pretokenizer.h"

namespace mainstem::tokenizer {

/// What a token is for. The values up to kByte are those of `tokenizer.ggml.token_type` and of
/// a SentencePiece model's pieces.
enum class TokenKind : uint8_t {
  kAbsent = 0,  ///< no token has this id
  kNormal = 1,  ///< the model's own
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,  ///< "<0x0A>" stands for one byte
};

struct TokenSpec {
  std::string_view text;
  TokenKind kind = TokenKind::kAbsent;
  double score = 0;
  /// False for an added token that the model itself does not know.
  bool in_model = true;
};

struct MergeSpec {
  std::string_view left, right;
};

/// A token that is found in the text before anything else. The flags are those of `added_tokens`
/// in tokenizer.json.
struct AddedToken {
  int64_t id = 0;
  std::string content;
  bool special = false;      ///< a control token
  bool single_word = false;  ///< not inside a word
  bool strip_left = false;   ///< takes the white space before it
  bool strip_right = false;  ///< … and after it
  bool normalized = false;   ///< found in the normalised text, not in the text itself
};

enum class ModelKind {
  kByteBpe,    ///< merges of bytes, written in byte-level characters
  kBpe,        ///< merges of characters
  kScoredBpe,  ///< SentencePiece's BPE: the pair whose joint text scores highest merges first
  kUnigram,    ///< the cut of a text whose scores have the largest sum
  kWordPiece,  ///< the longest piece first
};

/// Everything a tokenizer is made of, whatever file it came from. The views need to live only
/// until build_pipeline returns.
struct TokenizerSpec {
  ModelKind model = ModelKind::kByteBpe;
  std::vector<TokenSpec> tokens;  ///< by id
  /// So many tokens at the end are the model's alone: they have no id and become `missing_id`.
  size_t nameless_tokens = 0;
  std::deque<std::string> owned_texts;  ///< of tokens whose text stands in no file
  /// Of two normal tokens with the same text the later counts (as in llama.cpp); else an Error.
  bool allow_duplicate_texts = false;

  std::vector<MergeSpec> merges;  ///< by rank
  bool last_duplicate_merge_wins = false;
  /// A word that is a token as a whole is not built from merges.
  bool ignore_merges = false;

  /// Stands for what the vocabulary lacks: bytes, characters, for kWordPiece whole words.
  std::optional<int64_t> missing_id;
  bool fuse_missing = false;   ///< one for a run of them
  bool byte_fallback = false;  ///< first the tokens "<0x00>" to "<0xFF>" are tried
  /// User-defined tokens are the model's own: they are never cut (SentencePiece). Else they are
  /// found as added tokens.
  bool own_user_defined = false;
  /// Scores add up in float, as in sentencepiece; else in double, as in tokenizers.
  bool single_precision = false;
  std::string continuing_prefix = "##";  ///< of kWordPiece
  int64_t max_word_characters = 100;     ///< of kWordPiece; longer words are unknown

  std::vector<NormalizerStep> normalizer;
  std::vector<SplitStage> stages;
  std::vector<AddedToken> added;
  DecoderSpec decoder;

  std::optional<int64_t> bos_id, eos_id, unknown_id, padding_id;
  std::vector<int64_t> end_ids, prefix_ids, suffix_ids;
  std::vector<std::string> rules;  ///< see Tokenizer::rules
};

class Pipeline;

/// Checks the spec and builds the tables. Errors (kBadInput) name the token or merge.
std::shared_ptr<const Pipeline> build_pipeline(TokenizerSpec spec);

}  // namespace mainstem::tokenizer
