#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mainstem {

/// A file that appears under its name only when it is complete: written to a temporary name in the
/// same folder, flushed to the disk, renamed. Destroyed without commit(), it leaves nothing.
/// Errors are kBadInput and name the path.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Writes at a place, whatever was appended; a gap reads as zeros.
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  /// Bytes appended so far.
  uint64_t position() const { return position_; }
  /// Replaces the file of that name, if there is one.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  uint64_t position_ = 0;
};

}  // namespace mainstem
