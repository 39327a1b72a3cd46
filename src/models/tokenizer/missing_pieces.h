#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/tokenizer/byte_tokens.h"
#include "models/tokenizer/model.h"
#include "models/tokenizer/spec.h"

namespace mainstem::tokenizer {

/// What SentencePiece models do with text that no piece covers: byte tokens if there are all that
/// it needs, else the unknown token, one for a run.
class MissingPieces {
 public:
  MissingPieces(const TokenizerSpec& spec, const Vocab& vocab)
      : bytes_(spec.byte_fallback ? ByteTokens(vocab) : ByteTokens()),
        unknown_id_(spec.missing_id),
        fuse_(spec.fuse_missing) {}

  /// `after_missing`: the part before it was unknown, too. Returns whether this one is.
  bool append(std::string_view part, std::string_view word, bool after_missing,
              const EncodeContext& context, std::vector<int64_t>& ids) const {
    if (bytes_.has_all(part)) {
      for (const char byte : part) ids.push_back(bytes_[byte]);
      return false;
    }
    if (unknown_id_) {
      if (!(fuse_ && after_missing)) ids.push_back(*unknown_id_);
    } else if (context.missing == MissingByte::kError) {
      refuse_missing(part, word);
    }
    return true;
  }

 private:
  ByteTokens bytes_;
  std::optional<int64_t> unknown_id_;
  bool fuse_;
};

}  // namespace mainstem::tokenizer
