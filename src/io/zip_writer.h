#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/atomic_file.h"

namespace mainstem {

/// Appends stored members to a file that is a zip archive in the end. Times are fixed, so equal
/// content gives equal bytes.
class ZipWriter {
 public:
  /// Sizes and offsets from `zip64_from` on go into zip64 records; only tests change it.
  explicit ZipWriter(AtomicFile& file, uint64_t zip64_from = 0xFFFFFFFFu)
      : file_(file), zip64_from_(zip64_from) {}

  /// One member whose content is `head` followed by `body`.
  void add(const std::string& name, std::string_view head, std::span<const std::byte> body);
  /// Writes the directory.
  void finish();

 private:
  struct Member {
    std::string name;
    uint32_t crc;
    uint64_t size, offset;
  };
  bool wide(uint64_t value) const { return value >= zip64_from_; }
  std::string directory_entry(const Member& member) const;

  AtomicFile& file_;
  uint64_t zip64_from_;
  std::vector<Member> members_;
};

}  // namespace mainstem
