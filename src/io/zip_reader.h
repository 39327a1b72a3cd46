#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem {

struct ZipMember {
  std::string name;
  bool deflated = false;            ///< else stored: `data` is the content
  uint32_t crc = 0;                 ///< of the content
  uint64_t size = 0;                ///< of the content
  std::span<const std::byte> data;  ///< as it lies in the archive
};

/// The directory of a zip archive over bytes that somebody else owns (PKWARE APPNOTE 6.3, zip64
/// included). Refused: encryption, methods other than stored and deflate, several disks, members
/// that overlap or repeat a name, sizes beyond what deflate can reach, local headers that
/// contradict the directory, bytes before or after the archive.
class ZipArchive {
 public:
  /// `max_inflated_bytes` bounds the sum of the unpacked sizes of all deflated members.
  ZipArchive(std::span<const std::byte> bytes, uint64_t max_inflated_bytes);

  /// In the order of the directory.
  const std::vector<ZipMember>& members() const { return members_; }
  /// nullptr where there is none.
  const ZipMember* find(std::string_view name) const;

 private:
  void check_overlaps(std::vector<std::pair<uint64_t, uint64_t>> ranges) const;

  std::vector<ZipMember> members_;
  std::vector<uint32_t> by_name_;
};

/// Reads the content of one member front to back.
class ZipStream {
 public:
  /// Where a member claims much more than its compressed bytes suggest, it is unpacked once into
  /// nothing first, so that no memory is spent on a claim.
  explicit ZipStream(const ZipMember& member);
  ~ZipStream();
  ZipStream(const ZipStream&) = delete;
  ZipStream& operator=(const ZipStream&) = delete;

  /// Fills `out`; an Error where the content ends before.
  void read(std::span<std::byte> out);
  uint64_t remaining() const { return member_.size - position_; }
  /// Error unless the content is at its end and its CRC is right.
  void finish();

 private:
  struct Inflater;
  const ZipMember& member_;
  std::unique_ptr<Inflater> inflater_;
  uint64_t position_ = 0;
  uint32_t crc_ = 0;
};

}  // namespace mainstem
