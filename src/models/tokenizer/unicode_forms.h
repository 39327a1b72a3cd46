#pragma once

#include <string>
#include <string_view>

namespace mainstem::tokenizer {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// A Unicode normalization form; bytes that are not UTF-8 stay as they are and separate what is
/// around them. Code points newer than the installed utf8proc have no decomposition.
std::string to_form(std::string_view text, UnicodeForm form);
inline std::string to_nfc(std::string_view text) { return to_form(text, UnicodeForm::kNfc); }

/// The full lower-case mapping of every code point by itself: U+0130 becomes two, and a sigma at
/// the end of a word is like any other.
std::string to_lower(std::string_view text);

/// The length in bytes of the extended grapheme cluster at the start of a text that is not empty.
size_t grapheme_length(std::string_view text);

}  // namespace mainstem::tokenizer
