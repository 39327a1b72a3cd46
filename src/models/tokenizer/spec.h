#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/pretokenizer.h"

namespace mainstem::tokenizer {

/// What a token is for. The values up to kByte are those of `tokenizer.ggml.token_type`.
enum class TokenKind : uint8_t {
  kAbsent = 0,  ///< no token has this id
  kNormal = 1,  ///< the model's own; its text is in byte-level characters
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct TokenSpec {
  std::string_view text;
  TokenKind kind = TokenKind::kAbsent;
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

enum class Normalization { kNone, kNfc };

/// Everything a byte-level BPE tokenizer is made of, whatever file it came from. The views need to
/// live only until build_pipeline returns.
struct TokenizerSpec {
  std::vector<TokenSpec> tokens;  ///< by id
  /// Of two normal tokens with the same text the later counts (as in llama.cpp); else an Error.
  bool allow_duplicate_texts = false;
  std::vector<MergeSpec> merges;  ///< by rank
  bool last_duplicate_merge_wins = false;
  /// A word that is a token as a whole is not built from merges.
  bool ignore_merges = false;
  /// Stands for bytes that have no token of their own.
  std::optional<int64_t> missing_byte_id;
  bool fuse_missing = false;  ///< one for a run of such bytes

  Normalization normalization = Normalization::kNone;
  std::vector<SplitStage> stages;
  std::vector<AddedToken> added;

  std::optional<int64_t> bos_id, eos_id, unknown_id, padding_id;
  std::vector<int64_t> end_ids, prefix_ids, suffix_ids;
  std::vector<std::string> rules;  ///< see Tokenizer::rules
};

class Pipeline;

/// Checks the spec and builds the tables. Errors (kBadInput) name the token or merge.
std::shared_ptr<const Pipeline> build_pipeline(TokenizerSpec spec);

}  // namespace mainstem::tokenizer
