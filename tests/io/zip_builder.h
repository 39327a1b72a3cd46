#pragma once

// Writes zip archives for tests, among them such that no honest writer makes.

#include <zlib.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/npy_format.h"
#include "io/test_files.h"

namespace mainstem::test {

inline std::string deflated(std::string_view content) {
  z_stream state{};
  deflateInit2(&state, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&state, content.size()), '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  state.avail_in = static_cast<uInt>(content.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  deflate(&state, Z_FINISH);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

inline uint32_t crc_of(std::string_view content) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

/// A .npy file of float values.
inline std::string npy_of(const std::vector<float>& values) {
  std::string content = npy_header_text(DType::kF32, Shape{static_cast<int64_t>(values.size())});
  for (const float value : values) content += Bytes().f32(value).str();
  return content;
}

/// One member; what is left out is made right.
struct ZipPart {
  std::string name;
  std::string content = {};
  bool compress = false;
  std::optional<std::string> data = {};        ///< instead of the content, as it lies in the file
  std::optional<std::string> local_name = {};  ///< in the local header
  std::optional<uint32_t> crc = {};
  std::optional<uint64_t> size = {};
  std::optional<uint64_t> local_offset = {};  ///< in the directory
  uint16_t flags = 0;
  std::optional<uint16_t> method = {};
  bool zip64 = false;  ///< all ones in the directory, values in the extra field
};

struct ZipLayout {
  std::string before, comment;
  std::optional<uint16_t> count = {};
  std::optional<uint32_t> directory_offset = {}, directory_size = {};
  std::optional<uint32_t> comment_length = {};
  bool zip64 = false;
  std::optional<uint64_t> zip64_count = {}, zip64_end_offset = {};
};

inline std::string zip_archive(const std::vector<ZipPart>& parts, const ZipLayout& layout = {}) {
  std::string file = layout.before;
  std::string directory;
  for (const ZipPart& part : parts) {
    const std::string data =
        part.data.value_or(part.compress ? deflated(part.content) : part.content);
    const uint16_t method = part.method.value_or(part.compress ? 8 : 0);
    const uint32_t crc = part.crc.value_or(crc_of(part.content));
    const uint64_t size = part.size.value_or(part.content.size());
    const uint64_t offset = part.local_offset.value_or(file.size());
    const std::string local_name = part.local_name.value_or(part.name);
    Bytes local;
    local.u32(0x04034b50).u16(20).u16(part.flags).u16(method).u32(0).u32(crc);
    local.u32(static_cast<uint32_t>(data.size())).u32(static_cast<uint32_t>(size));
    local.u16(static_cast<uint16_t>(local_name.size())).u16(0).raw(local_name).raw(data);
    file += local.str();

    Bytes extra;
    if (part.zip64) extra.u16(1).u16(24).u64(size).u64(data.size()).u64(offset);
    const auto narrow = [&](uint64_t value) {
      return part.zip64 ? UINT32_MAX : static_cast<uint32_t>(value);
    };
    Bytes entry;
    entry.u32(0x02014b50).u16(20).u16(20).u16(part.flags).u16(method).u32(0).u32(crc);
    entry.u32(narrow(data.size())).u32(narrow(size)).u16(static_cast<uint16_t>(part.name.size()));
    entry.u16(static_cast<uint16_t>(extra.str().size())).u16(0).u16(0).u16(0).u32(0);
    entry.u32(narrow(offset)).raw(part.name).raw(extra.str());
    directory += entry.str();
  }
  const uint64_t directory_offset = file.size();
  const uint64_t count = parts.size();
  Bytes end;
  if (layout.zip64) {
    const uint64_t at = layout.zip64_end_offset.value_or(directory_offset + directory.size());
    end.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0);
    end.u64(layout.zip64_count.value_or(count)).u64(layout.zip64_count.value_or(count));
    end.u64(directory.size()).u64(directory_offset);
    end.u32(0x07064b50).u32(0).u64(at).u32(1);
  }
  const auto short_count = layout.count.value_or(static_cast<uint16_t>(count));
  end.u32(0x06054b50).u16(0).u16(0).u16(short_count).u16(short_count);
  end.u32(layout.directory_size.value_or(static_cast<uint32_t>(directory.size())));
  end.u32(layout.directory_offset.value_or(static_cast<uint32_t>(directory_offset)));
  end.u16(static_cast<uint16_t>(
      layout.comment_length.value_or(static_cast<uint32_t>(layout.comment.size()))));
  return file + directory + end.str() + layout.comment;
}

}  // namespace mainstem::test
