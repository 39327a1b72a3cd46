#include <algorithm>
#include <limits>
#include <utility>

#include "base/byte_reader.h"
#include "io/gguf_types.h"
#include "io/text.h"
#include "mainstem/gguf.h"

namespace mainstem {
namespace {

std::string type_text(const GgufEntry& entry) {
  if (entry.type != GgufType::kArray) return std::string(name(entry.type));
  return "array of " + std::string(name(entry.element_type));
}

[[noreturn]] void wrong_type(const GgufEntry& entry, const char* expected,
                             const std::string& path) {
  throw bad_input("metadata value", expected, type_text(entry)).in(quote(entry.key)).in(path);
}

bool is_integer(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kU16:
    case GgufType::kI16:
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kU64:
    case GgufType::kI64:
      return true;
    case GgufType::kF32:
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray:
    case GgufType::kF64:
      return false;
  }
  return false;
}

// The next value of a type that is_integer.
int64_t read_integer(ByteReader& reader, GgufType type) {
  switch (type) {
    case GgufType::kU8:
      return reader.read<uint8_t>("value");
    case GgufType::kI8:
      return reader.read<int8_t>("value");
    case GgufType::kU16:
      return reader.read<uint16_t>("value");
    case GgufType::kI16:
      return reader.read<int16_t>("value");
    case GgufType::kU32:
      return reader.read<uint32_t>("value");
    case GgufType::kI32:
      return reader.read<int32_t>("value");
    case GgufType::kI64:
      return reader.read<int64_t>("value");
    case GgufType::kU64: {
      const auto value = reader.read<uint64_t>("value");
      if (value > uint64_t{std::numeric_limits<int64_t>::max()}) {
        throw bad_input("metadata value", "less than 2^63", std::to_string(value));
      }
      return static_cast<int64_t>(value);
    }
    case GgufType::kF32:
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray:
    case GgufType::kF64:
      break;
  }
  throw internal_error("read_integer of a type that is none");
}

Error missing_key(std::string_view key, const std::string& path) {
  return bad_input("metadata", "the key " + quote(key), "none").in(path);
}

std::string_view read_string(ByteReader& reader) {
  const auto length = reader.read<uint64_t>("string length");
  return reader.take_text(length, "string");
}

}  // namespace

const GgufEntry* GgufFile::entry(std::string_view key) const {
  const auto at = std::lower_bound(
      entries_by_key_.begin(), entries_by_key_.end(), key,
      [&](uint32_t i, std::string_view wanted) { return entries_[i].key < wanted; });
  return at != entries_by_key_.end() && entries_[*at].key == key ? &entries_[*at] : nullptr;
}

std::optional<std::string_view> GgufFile::get_string(std::string_view key) const {
  const GgufEntry* found = entry(key);
  if (found == nullptr) return {};
  if (found->type != GgufType::kString) wrong_type(*found, "string", *path_);
  ByteReader reader(found->bytes);
  return read_string(reader);
}

std::optional<int64_t> GgufFile::get_int(std::string_view key) const {
  const GgufEntry* found = entry(key);
  if (found == nullptr) return {};
  if (!is_integer(found->type)) wrong_type(*found, "an integer", *path_);
  return with_context(quote(key) + ", " + *path_, [&] {
    ByteReader reader(found->bytes);
    return std::optional(read_integer(reader, found->type));
  });
}

std::optional<double> GgufFile::get_float(std::string_view key) const {
  const GgufEntry* found = entry(key);
  if (found == nullptr) return {};
  ByteReader reader(found->bytes);
  if (found->type == GgufType::kF32) return double{reader.read<float>("value")};
  if (found->type == GgufType::kF64) return reader.read<double>("value");
  if (!is_integer(found->type)) wrong_type(*found, "a number", *path_);
  return static_cast<double>(*get_int(key));
}

std::optional<bool> GgufFile::get_bool(std::string_view key) const {
  const GgufEntry* found = entry(key);
  if (found == nullptr) return {};
  if (found->type != GgufType::kBool) wrong_type(*found, "bool", *path_);
  return found->bytes[0] != std::byte{0};
}

const GgufEntry* GgufFile::array(std::string_view key) const {
  const GgufEntry* found = entry(key);
  if (found != nullptr && found->type != GgufType::kArray) wrong_type(*found, "an array", *path_);
  return found;
}

std::optional<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  const GgufEntry* found = array(key);
  if (found == nullptr) return {};
  if (found->element_type != GgufType::kString) wrong_type(*found, "array of string", *path_);
  std::vector<std::string_view> result;
  result.reserve(found->count);
  ByteReader reader(found->bytes);
  for (uint64_t i = 0; i < found->count; ++i) result.push_back(read_string(reader));
  return result;
}

std::optional<std::vector<int64_t>> GgufFile::get_ints(std::string_view key) const {
  const GgufEntry* found = array(key);
  if (found == nullptr) return {};
  if (!is_integer(found->element_type)) wrong_type(*found, "array of integers", *path_);
  return with_context(quote(key) + ", " + *path_, [&] {
    std::vector<int64_t> result(found->count);
    ByteReader reader(found->bytes);
    for (int64_t& value : result) value = read_integer(reader, found->element_type);
    return std::optional(std::move(result));
  });
}

std::optional<std::vector<int32_t>> GgufFile::get_i32s(std::string_view key) const {
  const GgufEntry* found = array(key);
  if (found == nullptr) return {};
  if (found->element_type != GgufType::kI32 && found->element_type != GgufType::kU32) {
    wrong_type(*found, "array of i32 or u32", *path_);
  }
  std::vector<int32_t> result(found->count);
  ByteReader reader(found->bytes);
  for (int32_t& value : result) value = reader.read<int32_t>("value");
  return result;
}

std::optional<std::vector<float>> GgufFile::get_floats(std::string_view key) const {
  const GgufEntry* found = array(key);
  if (found == nullptr) return {};
  if (found->element_type != GgufType::kF32) wrong_type(*found, "array of f32", *path_);
  std::vector<float> result(found->count);
  ByteReader reader(found->bytes);
  for (float& value : result) value = reader.read<float>("value");
  return result;
}

std::optional<std::vector<bool>> GgufFile::get_bools(std::string_view key) const {
  const GgufEntry* found = array(key);
  if (found == nullptr) return {};
  if (found->element_type != GgufType::kBool) wrong_type(*found, "array of bool", *path_);
  std::vector<bool> result(found->count);
  for (size_t i = 0; i < result.size(); ++i) result[i] = found->bytes[i] != std::byte{0};
  return result;
}

std::string_view GgufFile::need_string(std::string_view key) const {
  if (const auto value = get_string(key)) return *value;
  throw missing_key(key, *path_);
}

int64_t GgufFile::need_int(std::string_view key) const {
  if (const auto value = get_int(key)) return *value;
  throw missing_key(key, *path_);
}

double GgufFile::need_float(std::string_view key) const {
  if (const auto value = get_float(key)) return *value;
  throw missing_key(key, *path_);
}

std::vector<std::string_view> GgufFile::need_strings(std::string_view key) const {
  if (auto value = get_strings(key)) return *std::move(value);
  throw missing_key(key, *path_);
}

}  // namespace mainstem
