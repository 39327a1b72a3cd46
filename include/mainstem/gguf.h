#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/stored_tensor.h"

namespace mainstem {

/// The value types of GGUF metadata, with the file's numbers.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

/// "u8", "string", …
std::string_view name(GgufType type);

/// One metadata entry; the bytes stay in the mapped file.
struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::kU8;          ///< kArray for arrays
  GgufType element_type = GgufType::kU8;  ///< of an array; else as `type`
  uint64_t count = 1;                     ///< elements of an array; else 1
  std::span<const std::byte> bytes;       ///< values as stored, without type and count
};

struct GgufOptions {
  /// Accept bytes after the last tensor with a warning instead of an Error.
  bool allow_trailing = false;
};

/// A GGUF file of version 2 or 3, mapped and checked. Format: ggml-org/ggml docs/gguf.md and
/// llama.cpp ggml/src/gguf.cpp. Refused: nested arrays, duplicate keys or names, more than 4
/// dimensions, an alignment that is no power of two from 8 to 1 MiB, holes and overlaps between
/// tensors, type numbers outside ggml's table. Known types without a DType (IQ*, MXFP4, …) are
/// listed; view() of them is an Error. Shapes are row-major: a matrix stored as ne = (in, out) has
/// the shape [out, in]. Every Error is kBadInput.
///
///     auto file = GgufFile::open("model.gguf");
///     int64_t layers = file.need_int("llama.block_count");
///     TensorView table = file.view("token_embd.weight");  // [V, D]
class GgufFile {
 public:
  static GgufFile open(const std::filesystem::path& path, const GgufOptions& options = {});
  /// The same over bytes in memory, which the caller keeps alive. `name` is for messages.
  static GgufFile from_bytes(std::span<const std::byte> bytes, std::string name,
                             const GgufOptions& options = {});

  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }

  /// All entries, in the order of the file.
  const std::vector<GgufEntry>& metadata() const { return entries_; }
  /// nullptr where there is none.
  const GgufEntry* entry(std::string_view key) const;
  bool has(std::string_view key) const { return entry(key) != nullptr; }

  // Typed look-up: empty where the key is absent, an Error naming key and types where the value
  // has another type. The views live as long as the file.
  std::optional<std::string_view> get_string(std::string_view key) const;
  /// Integers of any width and sign; an Error where a u64 does not fit.
  std::optional<int64_t> get_int(std::string_view key) const;
  /// f32 or f64, or an integer.
  std::optional<double> get_float(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;
  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const;
  /// Arrays of integers of any width and sign.
  std::optional<std::vector<int64_t>> get_ints(std::string_view key) const;
  /// Arrays of i32 or u32 alone (token types), without widening.
  std::optional<std::vector<int32_t>> get_i32s(std::string_view key) const;
  /// Arrays of f32 alone.
  std::optional<std::vector<float>> get_floats(std::string_view key) const;
  std::optional<std::vector<bool>> get_bools(std::string_view key) const;

  // The same; an absent key is an Error that names it.
  std::string_view need_string(std::string_view key) const;
  int64_t need_int(std::string_view key) const;
  double need_float(std::string_view key) const;
  std::vector<std::string_view> need_strings(std::string_view key) const;

  /// In the order of the file.
  const std::vector<StoredTensor>& tensors() const& { return tensors_; }
  /// A loop over the tensors of a temporary would outlive it.
  const std::vector<StoredTensor>& tensors() const&& = delete;
  /// nullptr where there is none.
  const StoredTensor* find(std::string_view name) const;
  /// Values of a tensor; an Error where it is missing or cannot be read.
  TensorView view(std::string_view name) const;

  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::string& path() const { return *path_; }
  /// Keeps the mapping, and with it every view, alive after the file object is gone.
  std::shared_ptr<const void> storage() const { return storage_; }

 private:
  GgufFile() = default;
  void parse(std::span<const std::byte> bytes, const GgufOptions& options);
  const GgufEntry* array(std::string_view key) const;

  std::shared_ptr<const void> storage_;
  std::shared_ptr<const std::string> path_;
  uint32_t version_ = 0;
  uint32_t alignment_ = 32;
  std::vector<GgufEntry> entries_;
  std::vector<uint32_t> entries_by_key_;
  std::vector<StoredTensor> tensors_;
  std::vector<uint32_t> tensors_by_name_;
  std::vector<std::string> warnings_;
};

}  // namespace mainstem
