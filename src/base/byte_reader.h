#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/checked.h"
#include "mainstem/error.h"

namespace mainstem {

/// Reads little-endian values from a bounded range of bytes. Every parser of foreign bytes uses
/// it; nothing is read, skipped or viewed past the end, whatever the counts in the file say.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t offset() const { return offset_; }
  size_t size() const { return bytes_.size(); }
  size_t remaining() const { return bytes_.size() - offset_; }

  /// The next sizeof(T) bytes as T. `name` is what the error calls the value.
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  T read(const char* name) {
    T value;
    std::memcpy(&value, take(sizeof(T), name).data(), sizeof(T));
    return value;
  }

  /// A view of the next `count` bytes.
  std::span<const std::byte> take(uint64_t count, const char* name) {
    if (count > remaining()) {
      throw bad_input(name, std::to_string(count) + " bytes at offset " + std::to_string(offset_),
                      std::to_string(remaining()) + " bytes before the end");
    }
    auto result = bytes_.subspan(offset_, static_cast<size_t>(count));
    offset_ += static_cast<size_t>(count);
    return result;
  }

  std::string_view take_text(uint64_t count, const char* name) {
    auto raw = take(count, name);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  /// Throws unless `count` records of at least `minimum_bytes` each can still follow. Called
  /// before anything is allocated for a count that the file states.
  void expect_records(uint64_t count, uint64_t minimum_bytes, const char* name) const {
    if (minimum_bytes != 0 && count > remaining() / minimum_bytes) {
      throw bad_input(name,
                      "at most " + std::to_string(remaining() / minimum_bytes) +
                          " (the bytes that follow hold no more)",
                      std::to_string(count));
    }
  }

  void seek(uint64_t offset, const char* name) {
    if (offset > bytes_.size()) {
      throw bad_input(name, "an offset of at most " + std::to_string(bytes_.size()),
                      std::to_string(offset));
    }
    offset_ = static_cast<size_t>(offset);
  }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

}  // namespace mainstem
