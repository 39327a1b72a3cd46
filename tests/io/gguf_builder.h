#pragma once

// Writes GGUF files for tests, among them such that no honest writer makes.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/gguf_types.h"
#include "io/test_files.h"

namespace mainstem::test {

class GgufBuilder {
 public:
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t alignment = 32;               ///< of the padding; not written as a key
  std::optional<uint64_t> entry_count;   ///< instead of the true one
  std::optional<uint64_t> tensor_count;  ///< instead of the true one
  bool pad_end = true;                   ///< pad after the last tensor

  /// A value whose bytes are given as they lie in the file, without the type.
  GgufBuilder& entry(std::string_view key, uint32_t type, std::string_view value) {
    entries_.push_back(Bytes().string(key).u32(type).raw(value).str());
    return *this;
  }
  GgufBuilder& entry(std::string_view key, GgufType type, const Bytes& value) {
    return entry(key, static_cast<uint32_t>(type), value.str());
  }
  GgufBuilder& u32(std::string_view key, uint32_t value) {
    return entry(key, GgufType::kU32, Bytes().u32(value));
  }
  GgufBuilder& text(std::string_view key, std::string_view value) {
    return entry(key, GgufType::kString, Bytes().string(value));
  }
  /// An array whose elements are given as they lie in the file.
  GgufBuilder& array(std::string_view key, GgufType element, uint64_t count, const Bytes& values) {
    return entry(key, GgufType::kArray,
                 Bytes().u32(static_cast<uint32_t>(element)).u64(count).raw(values.str()));
  }
  GgufBuilder& texts(std::string_view key, std::initializer_list<std::string_view> values) {
    Bytes bytes;
    for (const std::string_view value : values) bytes.string(value);
    return array(key, GgufType::kString, values.size(), bytes);
  }

  /// A tensor with data, placed after those before it. `dims` in ggml's order.
  GgufBuilder& tensor(std::string_view name, uint32_t type, std::vector<uint64_t> dims,
                      std::string_view data) {
    pad_data();
    tensor_info(name, type, std::move(dims), data_.size());
    data_ += data;
    return *this;
  }
  /// A tensor info alone.
  GgufBuilder& tensor_info(std::string_view name, uint32_t type, std::vector<uint64_t> dims,
                           uint64_t offset, std::optional<uint32_t> dim_count = {}) {
    Bytes bytes;
    bytes.string(name).u32(dim_count.value_or(static_cast<uint32_t>(dims.size())));
    for (const uint64_t dim : dims) bytes.u64(dim);
    tensors_.push_back(bytes.u32(type).u64(offset).str());
    return *this;
  }
  GgufBuilder& data(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }

  std::string header() const {
    Bytes bytes;
    bytes.raw(magic).u32(version).u64(tensor_count.value_or(tensors_.size()));
    bytes.u64(entry_count.value_or(entries_.size()));
    for (const std::string& one : entries_) bytes.raw(one);
    for (const std::string& one : tensors_) bytes.raw(one);
    return bytes.str();
  }
  std::string build() const {
    std::string result = header();
    if (data_.empty()) return result;
    result.resize(padded(result.size()));
    result += data_;
    if (pad_end) result.resize(padded(result.size()));
    return result;
  }

 private:
  uint64_t padded(uint64_t bytes) const { return (bytes + alignment - 1) / alignment * alignment; }
  void pad_data() { data_.resize(padded(data_.size())); }

  std::vector<std::string> entries_, tensors_;
  std::string data_;
};

}  // namespace mainstem::test
