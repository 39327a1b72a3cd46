#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/stored_tensor.h"

namespace mainstem {

struct SafetensorsOptions {
  /// The limit of the format's own reader.
  uint64_t max_header_bytes = 100'000'000;
  /// Accept bytes after the last tensor with a warning instead of an Error.
  bool allow_trailing = false;
};

/// A safetensors file, mapped and checked. Format: huggingface/safetensors, README and
/// safetensors/src/tensor.rs (0.8.0); the checks are those of its reader (contiguous cover,
/// sizes, duplicate keys), and a rank of at most 64. Types without a DType (F4, F6_*, F8_E8M0, …
/// and unknown ones) are listed; view() of them is an Error. Every Error is kBadInput.
///
///     auto file = SafetensorsFile::open("model.safetensors");
///     for (const StoredTensor& tensor : file.tensors()) print(tensor.name, tensor.shape);
///     TensorView weight = file.view("model.embed_tokens.weight");
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path,
                              const SafetensorsOptions& options = {});
  /// The same over bytes in memory, which the caller keeps alive. `name` is for messages.
  static SafetensorsFile from_bytes(std::span<const std::byte> bytes, std::string name,
                                    const SafetensorsOptions& options = {});

  /// In the order of their data.
  const std::vector<StoredTensor>& tensors() const& { return tensors_; }
  /// A loop over the tensors of a temporary would outlive it.
  const std::vector<StoredTensor>& tensors() const&& = delete;
  /// nullptr where there is none.
  const StoredTensor* find(std::string_view name) const;
  /// Values of a tensor; an Error where it is missing or cannot be read.
  TensorView view(std::string_view name) const;
  /// The `__metadata__` entries.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::string& path() const { return *path_; }
  /// Keeps the mapping, and with it every view, alive after the file object is gone.
  std::shared_ptr<const void> storage() const { return storage_; }

 private:
  SafetensorsFile() = default;
  void parse(std::span<const std::byte> bytes, const SafetensorsOptions& options);

  std::shared_ptr<const void> storage_;
  std::shared_ptr<const std::string> path_;
  std::shared_ptr<const void> type_names_;
  std::vector<StoredTensor> tensors_;
  std::vector<uint32_t> by_name_;
  std::map<std::string, std::string, std::less<>> metadata_;
  std::vector<std::string> warnings_;
};

/// The weights of a model folder: `model.safetensors`, or the shards that
/// `model.safetensors.index.json` lists, or the only `.safetensors` file there is.
///
///     auto folder = open_safetensors_folder("Qwen3-0.6B");
///     for (const StoredTensor* tensor : folder.tensors()) print(tensor->name);
class SafetensorsFolder {
 public:
  SafetensorsFolder(SafetensorsFolder&&) = default;
  SafetensorsFolder& operator=(SafetensorsFolder&&) = default;

  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// All tensors, file after file.
  const std::vector<const StoredTensor*>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;
  TensorView view(std::string_view name) const;
  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::string& path() const { return path_; }

 private:
  friend SafetensorsFolder open_safetensors_folder(const std::filesystem::path& folder,
                                                   const SafetensorsOptions& options);
  SafetensorsFolder() = default;
  void collect();

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::vector<const StoredTensor*> tensors_;
  std::vector<const StoredTensor*> by_name_;
  std::vector<std::string> warnings_;
};

/// Opens a folder. Index, directory and file contents are compared first, and one Error lists all
/// differences: files that are missing, tensors that the index puts elsewhere or that no file
/// holds, tensors it does not know. A folder without safetensors is an Error that says what is
/// there.
SafetensorsFolder open_safetensors_folder(const std::filesystem::path& folder,
                                          const SafetensorsOptions& options = {});

/// Writes a file with the bytes of the official writer (0.8.0): tensors by falling dtype, then by
/// name, the header padded with spaces to 8 bytes. Metadata keys are sorted (the official order is
/// random). The file appears under its name only when complete. Errors: kUsage for duplicate
/// names, quantised types or text that is not UTF-8; kBadInput where the disk refuses.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// What a streamed tensor will be, known before its values are.
struct TensorPlan {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

/// Writes the same file tensor by tensor, for values that do not fit in memory together. All
/// shapes are stated first; values come in any order, each whole. Without finish() no file
/// appears.
///
///     SafetensorsWriter writer("trace.safetensors", plan);
///     writer.write("blocks.0.q", view);
///     writer.finish();
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::span<const TensorPlan> plan,
                    const std::map<std::string, std::string>& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;

  /// Dtype and shape must be the planned ones; each tensor is written once.
  void write(std::string_view name, const TensorView& view);
  /// Error (kUsage) that lists the tensors which were not written.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mainstem
