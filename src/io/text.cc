#include "io/text.h"

#include <algorithm>

#include "mainstem/error.h"

namespace mainstem {
namespace {

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() &&
         std::equal(text.begin(), text.end(), bytes.begin(),
                    [](char c, std::byte b) { return std::byte(c) == b; });
}

bool is_lfs_pointer(std::span<const std::byte> bytes) {
  return starts_with(bytes, "version https://git-lfs");
}

bool is_web_page(std::span<const std::byte> bytes) {
  return starts_with(bytes, "<!DOCTYPE") || starts_with(bytes, "<!doctype") ||
         starts_with(bytes, "<html");
}

// Bytes of the sequence that begins at `text`, or 0 where it is not well-formed (Unicode,
// table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = sequence_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::string quote(std::string_view text, size_t limit) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string result = "\"";
  size_t at = 0;
  while (at < text.size() && result.size() < limit) {
    const size_t length = sequence_length(text.substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      result += "\\x";
      result += kHex[byte >> 4];
      result += kHex[byte & 15];
      ++at;
    } else {
      result += text.substr(at, length);
      at += length;
    }
  }
  if (at < text.size()) result += "…";
  return result + "\"";
}

std::string describe_content(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "an empty file";
  if (is_lfs_pointer(bytes)) return "a Git LFS pointer";
  if (is_web_page(bytes)) return "a web page";
  if (starts_with(bytes, "GGUF")) return "a GGUF file";
  if (starts_with(bytes, "PK\x03\x04")) return "a zip archive (.npz or .pt)";
  if (starts_with(bytes, "\x93NUMPY")) return "a .npy file";
  if (starts_with(bytes, "\x80\x02")) return "a Python pickle";
  if (bytes.size() > 9 && bytes[8] == std::byte('{')) return "a safetensors file";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 8));
  return "a file that begins with " + quote(text);
}

void refuse_placeholder(std::span<const std::byte> bytes, const char* expected) {
  if (is_lfs_pointer(bytes)) {
    throw bad_input("content", expected, "a Git LFS pointer")
        .hint("the file was not downloaded: run `git lfs pull` in its repository");
  }
  if (is_web_page(bytes)) {
    throw bad_input("content", expected, "a web page")
        .hint("the download was answered with a page: fetch the file again");
  }
}

}  // namespace mainstem
