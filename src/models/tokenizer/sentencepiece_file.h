#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/tokenizer/spec.h"

namespace mainstem::tokenizer {

/// A SentencePiece model (`tokenizer.model`, `source.spm`): the parts of ModelProto in
/// sentencepiece_model.proto that say how text is encoded. The texts are views of the file.
struct SentencePieceFile {
  struct Piece {
    std::string_view text;
    float score = 0;
    TokenKind kind = TokenKind::kNormal;
  };
  std::vector<Piece> pieces;

  enum class Type { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };
  Type type = Type::kUnigram;
  bool byte_fallback = false;
  bool spaces_as_suffix = false;                                    ///< treat_whitespace_as_suffix
  int32_t unknown_id = 0, bos_id = 1, eos_id = 2, padding_id = -1;  ///< negative: none

  std::string_view charsmap;  ///< precompiled_charsmap
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

/// Error(kBadInput) names the field. A type other than unigram and BPE, white space as a suffix and
/// a denormaliser are refused.
SentencePieceFile read_sentencepiece(std::string_view bytes);

}  // namespace mainstem::tokenizer
