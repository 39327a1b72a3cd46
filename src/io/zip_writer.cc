#include "io/zip_writer.h"

#include <zlib.h>

#include <algorithm>

namespace mainstem {
namespace {

constexpr uint16_t kVersion = 20, kVersion64 = 45;
constexpr uint16_t kUtf8Flag = 0x0800;
constexpr uint16_t kDate1980 = 0x0021;
constexpr uint64_t kFull32 = 0xFFFFFFFFu;

// Little-endian values, one after the other.
class Record {
 public:
  Record& u16(uint64_t value) { return put(value, 2); }
  Record& u32(uint64_t value) { return put(value, 4); }
  Record& u64(uint64_t value) { return put(value, 8); }
  Record& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& put(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xFF);
    return *this;
  }
  std::string bytes_;
};

}  // namespace

void ZipWriter::add(const std::string& name, std::string_view head,
                    std::span<const std::byte> body) {
  uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(head.data()), head.size());
  if (!body.empty()) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(body.data()), body.size());
  }
  const Member member{name, static_cast<uint32_t>(crc), head.size() + body.size(),
                      file_.position()};
  Record extra;
  const bool zip64 = wide(member.size);
  if (zip64) extra.u16(1).u16(16).u64(member.size).u64(member.size);
  Record local;
  local.u32(0x04034b50).u16(zip64 ? kVersion64 : kVersion).u16(kUtf8Flag).u16(0);
  local.u16(0).u16(kDate1980).u32(member.crc);
  local.u32(zip64 ? kFull32 : member.size).u32(zip64 ? kFull32 : member.size);
  local.u16(name.size()).u16(extra.bytes().size()).text(name).text(extra.bytes());
  file_.write(local.bytes());
  file_.write(head);
  file_.write(body);
  members_.push_back(member);
}

std::string ZipWriter::directory_entry(const Member& member) const {
  const bool wide_size = wide(member.size), wide_offset = wide(member.offset);
  Record fields;
  if (wide_size) fields.u64(member.size).u64(member.size);
  if (wide_offset) fields.u64(member.offset);
  Record extra;
  if (!fields.bytes().empty()) extra.u16(1).u16(fields.bytes().size()).text(fields.bytes());
  const uint16_t version = extra.bytes().empty() ? kVersion : kVersion64;
  Record entry;
  entry.u32(0x02014b50).u16(version).u16(version).u16(kUtf8Flag).u16(0);
  entry.u16(0).u16(kDate1980).u32(member.crc);
  entry.u32(wide_size ? kFull32 : member.size).u32(wide_size ? kFull32 : member.size);
  entry.u16(member.name.size()).u16(extra.bytes().size()).u16(0).u16(0).u16(0).u32(0);
  entry.u32(wide_offset ? kFull32 : member.offset).text(member.name).text(extra.bytes());
  return entry.bytes();
}

void ZipWriter::finish() {
  const uint64_t offset = file_.position();
  for (const Member& member : members_) file_.write(directory_entry(member));
  const uint64_t size = file_.position() - offset;
  const uint64_t count = members_.size();
  const bool zip64 = wide(offset) || wide(size) || count >= 0xFFFF;
  Record end;
  if (zip64) {
    const uint64_t at = file_.position();
    end.u32(0x06064b50).u64(44).u16(kVersion64).u16(kVersion64).u32(0).u32(0);
    end.u64(count).u64(count).u64(size).u64(offset);
    end.u32(0x07064b50).u32(0).u64(at).u32(1);
  }
  const uint64_t short_count = zip64 ? 0xFFFF : count;
  end.u32(0x06054b50).u16(0).u16(0).u16(short_count).u16(short_count);
  end.u32(zip64 ? kFull32 : size).u32(zip64 ? kFull32 : offset).u16(0);
  file_.write(end.bytes());
}

}  // namespace mainstem
