#include "io/dump/dump_slices.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "io/dump/dump_reader.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

class SliceReader final : public DumpReader {
 public:
  /// Where a tensor's values are in the whole dump.
  struct Place {
    size_t tensor = 0;
    int64_t slice = kWhole;
  };
  static constexpr int64_t kWhole = -1;

  SliceReader(Dump dump, std::vector<Place> places)
      : dump_(std::move(dump)), places_(std::move(places)) {}

  Tensor read(const DumpTensor& tensor) const override {
    const Place& place = places_[tensor.id];
    const DumpTensor& source = dump_.tensors()[place.tensor];
    if (place.slice == kWhole) return dump_.read(source);
    // Slices are read one after the other, and not every format can read a part of a tensor.
    const std::lock_guard lock(mutex_);
    if (!last_ || last_->first != place.tensor) {
      last_.reset();
      last_.emplace(place.tensor, dump_.read(source));
    }
    Tensor values(tensor.dtype, tensor.shape);
    const auto bytes = static_cast<size_t>(values.view().bytes());
    const auto begin = static_cast<size_t>(place.slice) * bytes;
    if (bytes > 0) {
      std::memcpy(values.data<std::byte>(), last_->second.data<std::byte>() + begin, bytes);
    }
    return values;
  }

  PrintedValues read_printed(const DumpTensor& tensor) const override {
    return dump_.read_printed(dump_.tensors()[places_[tensor.id].tensor]);
  }

 private:
  Dump dump_;
  std::vector<Place> places_;
  mutable std::mutex mutex_;
  mutable std::optional<std::pair<size_t, Tensor>> last_;
};

}  // namespace

Dump take_apart(const Dump& dump, std::span<const StackedTensor> stacked) {
  DumpContent content;
  content.format = dump.format();
  content.left_out = dump.left_out();
  std::vector<SliceReader::Place> places;
  const auto add = [&](DumpTensor tensor, SliceReader::Place place) {
    tensor.id = places.size();
    content.tensors.push_back(std::move(tensor));
    places.push_back(place);
  };
  for (size_t i = 0; i < dump.tensors().size(); ++i) {
    const DumpTensor& tensor = dump.tensors()[i];
    const auto found = std::find_if(stacked.begin(), stacked.end(),
                                    [&](const StackedTensor& each) { return each.tensor == i; });
    if (found == stacked.end()) {
      add(tensor, {.tensor = i});
      continue;
    }
    if (tensor.printed || tensor.shape.empty() || tensor.shape[0] != std::ssize(found->names)) {
      throw internal_error("a tensor that holds no slices is taken apart");
    }
    for (size_t n = 0; n < found->names.size(); ++n) {
      DumpTensor slice = tensor;
      slice.name = found->names[n];
      slice.shape.erase(slice.shape.begin());
      add(std::move(slice), {.tensor = i, .slice = static_cast<int64_t>(n)});
    }
  }
  content.reader = std::make_shared<SliceReader>(dump, std::move(places));
  return DumpAccess::make(dump.path(), std::move(content));
}

}  // namespace mainstem
