#include <cstring>

#include "io/atomic_file.h"
#include "io/mapped_file.h"
#include "io/npy_format.h"
#include "io/text.h"
#include "mainstem/error.h"
#include "mainstem/npz.h"

namespace mainstem {

Tensor parse_npy(std::span<const std::byte> bytes) {
  refuse_placeholder(bytes, "a .npy file");
  const NpyArray array = split_npy(bytes);
  require_known_type(array.header);
  Tensor values(array.header.dtype, array.header.shape);
  if (!array.data.empty()) {
    std::memcpy(values.data<std::byte>(), array.data.data(), array.data.size());
  }
  return arrange_npy(array.header, std::move(values));
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
