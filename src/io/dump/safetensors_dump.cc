#include <cstring>

#include "io/dump/dump_reader.h"
#include "io/text.h"
#include "mainstem/safetensors.h"

namespace mainstem {
namespace {

class SafetensorsReader final : public DumpReader {
 public:
  explicit SafetensorsReader(SafetensorsFile file) : file_(std::move(file)) {}

  const SafetensorsFile& file() const { return file_; }

  Tensor read(const DumpTensor& tensor) const override {
    const StoredTensor& stored = file_.tensors()[tensor.id];
    Tensor values(tensor.dtype, tensor.shape);
    if (stored.bytes > 0) std::memcpy(values.data<std::byte>(), stored.data, stored.bytes);
    drop_mapped_pages({stored.data, static_cast<size_t>(stored.bytes)});
    return values;
  }

 private:
  SafetensorsFile file_;
};

}  // namespace

DumpContent open_safetensors_dump(const DumpFile& file) {
  auto reader = std::make_shared<SafetensorsReader>(
      file.mapped ? SafetensorsFile::open(file.path)
                  : SafetensorsFile::from_bytes(file.bytes, file.path));
  DumpContent content;
  content.format = DumpFormat::kSafetensors;
  const auto& tensors = reader->file().tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& stored = tensors[i];
    if (!stored.readable()) {
      content.left_out.push_back(quote(stored.name) + " has the type " + quote(stored.dtype_name) +
                                 ", which is not read");
      continue;
    }
    DumpTensor& tensor = content.tensors.emplace_back();
    tensor.name = stored.name;
    tensor.dtype = *stored.dtype;
    tensor.shape = stored.shape;
    tensor.id = i;
  }
  content.reader = std::move(reader);
  return content;
}

}  // namespace mainstem
