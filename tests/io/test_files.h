#pragma once

// What the tests of the file formats share: a folder of their own, raw bytes, expected errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "mainstem/error.h"

namespace mainstem::test {

/// A folder that is gone when the test ends.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mainstem-io-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  size_t file_count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                             std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

inline std::filesystem::path write_file(const std::filesystem::path& path,
                                        std::string_view content) {
  std::ofstream out(path, std::ios::binary);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!out) throw std::runtime_error("cannot write " + path.string());
  return path;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Little-endian values, one after the other.
class Bytes {
 public:
  template <typename T>
  Bytes& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Bytes& u8(uint8_t v) { return put(v); }
  Bytes& u16(uint16_t v) { return put(v); }
  Bytes& u32(uint32_t v) { return put(v); }
  Bytes& u64(uint64_t v) { return put(v); }
  Bytes& f32(float v) { return put(v); }
  Bytes& raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  /// A GGUF string.
  Bytes& string(std::string_view text) { return u64(text.size()).raw(text); }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

/// A safetensors file from its header text, unpadded, and its data.
inline std::string safetensors(std::string_view header, std::string_view data = {}) {
  return Bytes().u64(header.size()).raw(header).raw(data).str();
}

inline std::string safetensors_with(std::string_view header, size_t data_bytes) {
  return safetensors(header, std::string(data_bytes, '\1'));
}

/// Runs `body`, which must throw an Error of `code` whose text holds all `parts`.
template <typename Body>
void expect_error(ErrorCode code, std::initializer_list<std::string_view> parts, Body&& body) {
  try {
    body();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string_view part : parts) {
      EXPECT_THAT(error.what(), testing::HasSubstr(std::string(part)));
    }
  }
}

template <typename Body>
void expect_bad_input(std::initializer_list<std::string_view> parts, Body&& body) {
  expect_error(ErrorCode::kBadInput, parts, std::forward<Body>(body));
}

}  // namespace mainstem::test
