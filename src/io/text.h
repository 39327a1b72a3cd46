#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace mainstem {

/// Length of the longest valid UTF-8 prefix; the text is valid where that is all of it.
size_t valid_utf8_prefix(std::string_view text);

/// Text of a file, made fit for a message: quoted, control and invalid bytes escaped, cut to
/// `limit` bytes.
std::string quote(std::string_view text, size_t limit = 80);

/// What the first bytes look like, for a message: "a Git LFS pointer", "a zip archive", …
std::string describe_content(std::span<const std::byte> bytes);

/// Throws for a Git LFS pointer or a web page saved under the name of a binary file.
void refuse_placeholder(std::span<const std::byte> bytes, const char* expected);

}  // namespace mainstem
