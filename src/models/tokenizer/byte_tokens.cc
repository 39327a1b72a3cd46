#include "models/tokenizer/byte_tokens.h"

#include <algorithm>

#include "models/tokenizer/decoder.h"

namespace mainstem::tokenizer {

ByteTokens::ByteTokens(const Vocab& vocab) {
  for (size_t byte = 0; byte < ids_.size(); ++byte) {
    ids_[byte] = vocab.find_own(byte_token(static_cast<uint8_t>(byte)));
  }
}

bool ByteTokens::has_all(std::string_view bytes) const {
  return std::ranges::all_of(bytes, [this](char byte) { return (*this)[byte] >= 0; });
}

bool ByteTokens::complete() const {
  return std::ranges::all_of(ids_, [](int32_t id) { return id >= 0; });
}

}  // namespace mainstem::tokenizer
