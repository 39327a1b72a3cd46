#include "models/tokenizer/model.h"

#include "io/text.h"
#include "mainstem/error.h"
#include "models/tokenizer/unicode.h"

namespace mainstem::tokenizer {
namespace {

std::string hex_of(uint8_t byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

void refuse_missing(std::string_view part, std::string_view word) {
  const bool one_byte = part.size() == 1;
  throw bad_input("text to encode",
                  one_byte ? "bytes that the vocabulary has tokens for"
                           : "characters that the vocabulary has tokens for",
                  one_byte ? hex_of(static_cast<uint8_t>(part[0])) : quote(part, 40))
      .in("the word " + quote(word, 40))
      .hint("the model was trained without it: take it out of the text");
}

}  // namespace mainstem::tokenizer
