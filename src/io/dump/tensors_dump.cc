#include <cstring>
#include <utility>

#include "io/dump/dump_reader.h"

namespace mainstem {
namespace {

class TensorsReader final : public DumpReader {
 public:
  explicit TensorsReader(std::vector<TensorView> views) : views_(std::move(views)) {}

  Tensor read(const DumpTensor& tensor) const override {
    const TensorView& view = views_[tensor.id];
    Tensor values(tensor.dtype, tensor.shape);
    if (view.bytes() > 0) {
      std::memcpy(values.data<std::byte>(), view.data(), static_cast<size_t>(view.bytes()));
    }
    return values;
  }

 private:
  std::vector<TensorView> views_;
};

}  // namespace

DumpContent dump_of_tensors(std::span<const NamedTensor> tensors) {
  DumpContent content;
  content.format = DumpFormat::kTensors;
  std::vector<TensorView> views;
  for (const NamedTensor& each : tensors) {
    DumpTensor& tensor = content.tensors.emplace_back();
    tensor.name = each.name;
    tensor.dtype = each.view.dtype();
    tensor.shape = each.view.shape();
    tensor.id = views.size();
    views.push_back(each.view);
  }
  content.reader = std::make_shared<TensorsReader>(std::move(views));
  return content;
}

}  // namespace mainstem
