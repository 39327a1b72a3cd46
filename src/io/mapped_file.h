#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace mainstem {

/// A whole file, mapped read-only. Held by shared_ptr so that whoever views its bytes can keep it
/// alive. Another process that truncates the file while it is mapped ends this one with SIGBUS;
/// that cannot be prevented without copying.
class MappedFile {
 public:
  /// Errors (kBadInput): missing, a folder, a pipe or device, not readable. An empty file has no
  /// bytes and is fine here.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

  /// Reads ahead: the range will be wanted soon.
  void will_need(std::span<const std::byte> range) const;
  /// The range will be read once, front to back.
  void sequential(std::span<const std::byte> range) const;
  /// Gives the whole pages inside the range back to the system (after repacking); reading them
  /// again fetches them from the file.
  void drop_pages(std::span<const std::byte> range) const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

/// Asks for the pages of `range` back where it lies in any file that is mapped now; for callers
/// that hold only a view. Memory that is no mapped file is left alone.
void drop_mapped_pages(std::span<const std::byte> range);

}  // namespace mainstem
