#pragma once

#include <string>
#include <string_view>

namespace mainstem::chat {

/// What stands between the quotes of a string literal, with Python's escapes. An Error for \N{…},
/// for a broken escape and for half of a surrogate pair.
std::string unescape(std::string_view body);

}  // namespace mainstem::chat
