#include "io/zip_reader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kDirectorySignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocator64Signature = 0x07064b50;
constexpr uint64_t kEndBytes = 22, kLocator64Bytes = 20, kEnd64Bytes = 56;
constexpr uint64_t kDirectoryEntryBytes = 46;
constexpr uint32_t kFull32 = 0xFFFFFFFFu;
constexpr uint16_t kFull16 = 0xFFFFu;
constexpr uint16_t kEncryptionFlags = 0x2041;  // encrypted, strongly encrypted, masked
constexpr uint64_t kMaxDeflateRatio = 1032;    // zlib's technical notes

struct End {
  uint64_t count = 0, size = 0, offset = 0;
};

ByteReader reader_at(std::span<const std::byte> bytes, uint64_t offset, const char* name) {
  ByteReader reader(bytes);
  reader.seek(offset, name);
  return reader;
}

// Offset of the end record, which only the archive's comment may follow.
uint64_t find_end(std::span<const std::byte> bytes) {
  const uint64_t size = bytes.size();
  if (size >= kEndBytes) {
    const uint64_t lowest = size - std::min<uint64_t>(size, kEndBytes + 0xFFFF);
    for (uint64_t at = size - kEndBytes + 1; at-- > lowest;) {
      ByteReader reader = reader_at(bytes, at, "end record");
      if (reader.read<uint32_t>("signature") != kEndSignature) continue;
      reader.take(16, "end record");
      if (reader.read<uint16_t>("comment length") == reader.remaining()) return at;
    }
  }
  throw bad_input("zip archive", "an end record", "none: " + describe_content(bytes))
      .hint("the file is truncated or not an archive");
}

void expect_one_disk(uint64_t disk) {
  if (disk != 0) throw bad_input("zip archive", "one disk", "several");
}

// Reads the end record and, where it refers to one, the zip64 end record.
End read_end(std::span<const std::byte> bytes) {
  const uint64_t at = find_end(bytes);
  ByteReader reader = reader_at(bytes, at + 4, "end record");
  const auto disk = reader.read<uint16_t>("disk");
  const auto directory_disk = reader.read<uint16_t>("directory disk");
  const auto count_here = reader.read<uint16_t>("member count");
  End end;
  end.count = reader.read<uint16_t>("member count");
  end.size = reader.read<uint32_t>("directory size");
  end.offset = reader.read<uint32_t>("directory offset");
  uint64_t directory_end = at;
  const bool has_locator =
      at >= kLocator64Bytes &&
      reader_at(bytes, at - kLocator64Bytes, "locator").read<uint32_t>("signature") ==
          kLocator64Signature;
  if (has_locator) {
    ByteReader locator = reader_at(bytes, at - kLocator64Bytes + 4, "zip64 locator");
    expect_one_disk(locator.read<uint32_t>("disk"));
    directory_end = locator.read<uint64_t>("zip64 end record");
    if (at - kLocator64Bytes < kEnd64Bytes || directory_end > at - kLocator64Bytes - kEnd64Bytes) {
      throw bad_input("zip64 end record", "an offset before its locator",
                      std::to_string(directory_end));
    }
    ByteReader record = reader_at(bytes, directory_end, "zip64 end record");
    if (record.read<uint32_t>("signature") != kEnd64Signature) {
      throw bad_input("zip64 end record", "its signature", "other bytes");
    }
    record.take(12, "zip64 end record");
    expect_one_disk(record.read<uint32_t>("disk"));
    expect_one_disk(record.read<uint32_t>("directory disk"));
    record.take(8, "member count");
    end.count = record.read<uint64_t>("member count");
    end.size = record.read<uint64_t>("directory size");
    end.offset = record.read<uint64_t>("directory offset");
  } else {
    expect_one_disk(disk);
    expect_one_disk(directory_disk);
    if (count_here != end.count) throw bad_input("zip archive", "one disk", "several");
  }
  if (checked_add(end.offset, end.size, "directory end") != directory_end) {
    throw bad_input("zip directory", "an end at " + std::to_string(directory_end),
                    std::to_string(end.offset) + " + " + std::to_string(end.size));
  }
  return end;
}

// A directory entry as stored.
struct DirectoryEntry {
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t compressed = 0, size = 0, local_offset = 0;
  std::string_view name;
};

// The zip64 extra field holds, in this order, those values that are all ones elsewhere.
void read_zip64_extra(ByteReader extra, DirectoryEntry& entry) {
  const bool needs_size = entry.size == kFull32;
  const bool needs_compressed = entry.compressed == kFull32;
  const bool needs_offset = entry.local_offset == kFull32;
  if (!needs_size && !needs_compressed && !needs_offset) return;
  while (extra.remaining() >= 4) {
    const auto id = extra.read<uint16_t>("extra field");
    const auto length = extra.read<uint16_t>("extra field length");
    ByteReader field(extra.take(length, "extra field"));
    if (id != 1) continue;
    if (needs_size) entry.size = field.read<uint64_t>("size");
    if (needs_compressed) entry.compressed = field.read<uint64_t>("compressed size");
    if (needs_offset) entry.local_offset = field.read<uint64_t>("local header offset");
    return;
  }
}

DirectoryEntry read_entry(ByteReader& reader) {
  DirectoryEntry entry;
  if (reader.read<uint32_t>("signature") != kDirectorySignature) {
    throw bad_input("zip directory", "a member's signature", "other bytes");
  }
  reader.take(4, "versions");
  entry.flags = reader.read<uint16_t>("flags");
  entry.method = reader.read<uint16_t>("method");
  reader.take(4, "time");
  entry.crc = reader.read<uint32_t>("crc");
  entry.compressed = reader.read<uint32_t>("compressed size");
  entry.size = reader.read<uint32_t>("size");
  const auto name_length = reader.read<uint16_t>("name length");
  const auto extra_length = reader.read<uint16_t>("extra length");
  const auto comment_length = reader.read<uint16_t>("comment length");
  const auto disk = reader.read<uint16_t>("disk");
  if (disk != kFull16) expect_one_disk(disk);
  reader.take(6, "attributes");
  entry.local_offset = reader.read<uint32_t>("local header offset");
  entry.name = reader.take_text(name_length, "name");
  const auto extra = reader.take(extra_length, "extra fields");
  reader.take(comment_length, "comment");
  with_context(quote(entry.name), [&] { read_zip64_extra(ByteReader(extra), entry); });
  return entry;
}

void check_entry(const DirectoryEntry& entry) {
  if ((entry.flags & kEncryptionFlags) != 0) {
    throw bad_input("zip member", "no encryption", "an encrypted one");
  }
  if (entry.method != 0 && entry.method != 8) {
    throw bad_input("zip method", "stored (0) or deflate (8)", std::to_string(entry.method));
  }
  if (entry.method == 0 && entry.size != entry.compressed) {
    throw bad_input("zip member", "equal sizes of a stored member",
                    std::to_string(entry.size) + " and " + std::to_string(entry.compressed));
  }
  if (entry.size / kMaxDeflateRatio > entry.compressed) {
    throw bad_input("zip member", "at most 1032 bytes per compressed byte",
                    std::to_string(entry.size) + " from " + std::to_string(entry.compressed));
  }
}

// The member's bytes; its local header must agree with the directory.
std::span<const std::byte> read_local(std::span<const std::byte> bytes,
                                      const DirectoryEntry& entry) {
  ByteReader reader = reader_at(bytes, entry.local_offset, "local header offset");
  if (reader.read<uint32_t>("signature") != kLocalSignature) {
    throw bad_input("local header", "its signature", "other bytes");
  }
  reader.take(4, "version and flags");
  const auto method = reader.read<uint16_t>("method");
  reader.take(16, "time, crc and sizes");
  const auto name_length = reader.read<uint16_t>("name length");
  const auto extra_length = reader.read<uint16_t>("extra length");
  const std::string_view name = reader.take_text(name_length, "name");
  if (method != entry.method || name != entry.name) {
    throw bad_input("local header", "the name and method of the directory", quote(name));
  }
  reader.take(extra_length, "extra fields");
  return reader.take(entry.compressed, "member data");
}

}  // namespace

ZipArchive::ZipArchive(std::span<const std::byte> bytes, uint64_t max_inflated_bytes) {
  const End end = read_end(bytes);
  const auto directory = bytes.subspan(end.offset, end.size);
  ByteReader reader(directory);
  reader.expect_records(end.count, kDirectoryEntryBytes, "member count");
  const auto before = bytes.first(end.offset);
  uint64_t inflated = 0;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  members_.reserve(end.count);
  ranges.reserve(end.count);
  for (uint64_t i = 0; i < end.count; ++i) {
    const DirectoryEntry entry = read_entry(reader);
    with_context(quote(entry.name), [&] {
      check_entry(entry);
      const auto data = read_local(before, entry);
      ranges.emplace_back(entry.local_offset,
                          static_cast<uint64_t>(data.data() + data.size() - bytes.data()));
      if (entry.method == 8) inflated = checked_add(inflated, entry.size, "unpacked size");
      members_.push_back({std::string(entry.name), entry.method == 8, entry.crc, entry.size, data});
    });
  }
  if (reader.remaining() != 0) {
    throw bad_input("zip directory", "nothing after the last member",
                    std::to_string(reader.remaining()) + " bytes");
  }
  if (inflated > max_inflated_bytes) {
    throw bad_input("unpacked size", "at most " + std::to_string(max_inflated_bytes) + " bytes",
                    std::to_string(inflated))
        .hint("raise max_inflated_bytes for a file that is trusted");
  }
  check_overlaps(std::move(ranges));
  by_name_.resize(members_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return members_[a].name < members_[b].name; });
  for (size_t i = 1; i < by_name_.size(); ++i) {
    const std::string& name = members_[by_name_[i]].name;
    if (name == members_[by_name_[i - 1]].name) {
      throw bad_input("zip members", "each name once", quote(name) + " twice");
    }
  }
}

void ZipArchive::check_overlaps(std::vector<std::pair<uint64_t, uint64_t>> ranges) const {
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      throw bad_input("zip members", "members that do not overlap",
                      "two at offset " + std::to_string(ranges[i].first));
    }
  }
}

const ZipMember* ZipArchive::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](uint32_t i, std::string_view key) { return members_[i].name < key; });
  return at != by_name_.end() && members_[*at].name == name ? &members_[*at] : nullptr;
}

}  // namespace mainstem
