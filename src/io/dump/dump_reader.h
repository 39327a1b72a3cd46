#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/mapped_file.h"
#include "mainstem/dump.h"

namespace mainstem {

/// Where the values of one opened dump come from.
class DumpReader {
 public:
  DumpReader() = default;
  virtual ~DumpReader() = default;
  DumpReader(const DumpReader&) = delete;
  DumpReader& operator=(const DumpReader&) = delete;

  virtual Tensor read(const DumpTensor& tensor) const = 0;
  virtual PrintedValues read_printed(const DumpTensor& tensor) const;
};

/// What an opener of a format hands over. Ids are the opener's own.
struct DumpContent {
  DumpFormat format = DumpFormat::kSafetensors;
  std::vector<DumpTensor> tensors;
  std::vector<std::string> left_out;
  std::shared_ptr<const DumpReader> reader;
};

/// Fills a Dump.
struct DumpAccess {
  static Dump make(std::string path, DumpContent content);
};

/// The bytes of a dump that is one file.
struct DumpFile {
  std::span<const std::byte> bytes;
  std::string path;                          ///< for messages
  std::string stem;                          ///< the name of a lone array
  std::shared_ptr<const MappedFile> mapped;  ///< empty for bytes in memory
  std::filesystem::path folder;              ///< where files it names lie; empty where none may be

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

DumpContent open_safetensors_dump(const DumpFile& file);
DumpContent open_npy_dump(const DumpFile& file);
DumpContent open_npy_folder(const std::filesystem::path& folder);
/// An archive of torch.save or of numpy.savez.
DumpContent open_zip_dump(const DumpFile& file, const DumpOptions& options);
/// torch.save before 1.6, or with _use_new_zipfile_serialization=False.
DumpContent open_legacy_torch_dump(const DumpFile& file);
DumpContent open_llama_text(const DumpFile& file);
DumpContent open_debugger_json(const DumpFile& file);
DumpContent dump_of_tensors(std::span<const NamedTensor> tensors);

/// Whether the bytes are text that holds a header line of llama.cpp's callback.
bool is_llama_text(std::string_view text);

}  // namespace mainstem
