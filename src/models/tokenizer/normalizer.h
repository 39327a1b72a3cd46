#pragma once

#include <string>
#include <string_view>

namespace mainstem::tokenizer {

/// Normalization form C; bytes that are not UTF-8 stay as they are and separate what is around
/// them. Code points newer than the installed utf8proc have no composition.
std::string to_nfc(std::string_view text);

}  // namespace mainstem::tokenizer
