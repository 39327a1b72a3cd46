#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "models/tokenizer/vocab.h"

namespace mainstem::tokenizer {

/// The tokens "<0x00>" to "<0xFF>" of a vocabulary, as far as it has them.
class ByteTokens {
 public:
  ByteTokens() { ids_.fill(-1); }
  explicit ByteTokens(const Vocab& vocab);

  /// -1 if there is none.
  int32_t operator[](char byte) const { return ids_[static_cast<uint8_t>(byte)]; }
  /// Is there a token for each byte of a text?
  bool has_all(std::string_view bytes) const;
  bool complete() const;

 private:
  std::array<int32_t, 256> ids_;
};

}  // namespace mainstem::tokenizer
