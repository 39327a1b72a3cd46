#include <cstring>

#include "base/byte_reader.h"
#include "io/atomic_file.h"
#include "io/mapped_file.h"
#include "io/npy_format.h"
#include "io/text.h"
#include "mainstem/error.h"
#include "mainstem/npz.h"

namespace mainstem {

Tensor parse_npy(std::span<const std::byte> bytes) {
  refuse_placeholder(bytes, "a .npy file");
  const NpyPreamble preamble = parse_npy_preamble(bytes);
  ByteReader reader(bytes);
  reader.seek(preamble.bytes, "npy header");
  const NpyHeader header = parse_npy_header(reader.take_text(preamble.text_bytes, "npy header"));
  const auto expected = static_cast<uint64_t>(byte_count(header.dtype, header.shape));
  if (reader.remaining() != expected) {
    const bool short_of = reader.remaining() < expected;
    throw bad_input("npy data",
                    std::to_string(expected) + " bytes for " + std::string(name(header.dtype)) +
                        " " + to_string(header.shape),
                    std::to_string(reader.remaining()) +
                        (short_of ? ": the file is truncated" : ": more than the array"));
  }
  Tensor values(header.dtype, header.shape);
  if (expected > 0) {
    std::memcpy(values.data<std::byte>(), reader.take(expected, "npy data").data(), expected);
  }
  return arrange_npy(header, std::move(values));
}

Tensor read_npy(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return with_context(file->path(), [&] { return parse_npy(file->bytes()); });
}

void write_npy(const std::filesystem::path& path, const TensorView& tensor) {
  const std::string header =
      with_context(path.string(), [&] { return npy_header_text(tensor.dtype(), tensor.shape()); });
  AtomicFile file(path);
  file.write(header);
  file.write({tensor.data(), static_cast<size_t>(tensor.bytes())});
  file.commit();
}

}  // namespace mainstem
