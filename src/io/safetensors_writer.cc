#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/checked.h"
#include "io/atomic_file.h"
#include "io/safetensors_types.h"
#include "io/text.h"
#include "mainstem/safetensors.h"

namespace mainstem {
namespace {

std::string json_text(const std::string& text) {
  if (valid_utf8_prefix(text) != text.size()) {
    throw usage_error("text", "valid UTF-8", quote(text));
  }
  return nlohmann::json(text).dump();
}

struct Slot {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t begin = 0, bytes = 0;
  bool written = false;
};

const SafetensorsType* type_of(const TensorPlan& plan) {
  const SafetensorsType* type = find_safetensors_type(plan.dtype);
  if (type == nullptr) {
    throw usage_error("dtype", "a type of the safetensors format", std::string(name(plan.dtype)))
        .in(quote(plan.name))
        .hint("dequantise it first");
  }
  return type;
}

// The order of the official writer: its dtype enum downwards, then the name.
std::vector<Slot> arrange(std::span<const TensorPlan> plan) {
  std::vector<std::pair<const SafetensorsType*, const TensorPlan*>> order;
  for (const TensorPlan& tensor : plan) {
    if (tensor.name == "__metadata__") {
      throw usage_error("tensor name", "a name that is not reserved", quote(tensor.name));
    }
    order.emplace_back(type_of(tensor), &tensor);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->name < b.second->name;
  });
  std::vector<Slot> slots;
  uint64_t at = 0;
  for (const auto& [type, tensor] : order) {
    const auto bytes = static_cast<uint64_t>(byte_count(tensor->dtype, tensor->shape));
    slots.push_back({tensor->name, tensor->dtype, tensor->shape, at, bytes});
    at = checked_add(at, bytes, "file size");
  }
  return slots;
}

std::string header_text(const std::vector<Slot>& slots,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (text.back() != '{') text += ',';
      text += json_text(key) + ":" + json_text(value);
    }
    text += "}";
  }
  for (const Slot& slot : slots) {
    if (text.size() > 1) text += ',';
    text += json_text(slot.name) + ":{\"dtype\":\"" +
            std::string(find_safetensors_type(slot.dtype)->name) + "\",\"shape\":[";
    for (size_t i = 0; i < slot.shape.size(); ++i) {
      if (i > 0) text += ',';
      text += std::to_string(slot.shape[i]);
    }
    text += "],\"data_offsets\":[" + std::to_string(slot.begin) + "," +
            std::to_string(slot.begin + slot.bytes) + "]}";
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "files are little-endian");

struct SafetensorsWriter::State {
  explicit State(const std::filesystem::path& target) : file(target), path(target.string()) {}

  AtomicFile file;
  std::string path;
  std::vector<Slot> slots;                           // in file order
  std::map<std::string, size_t, std::less<>> index;  // name -> slot
  uint64_t data_start = 0;
};

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::span<const TensorPlan> plan,
                                     const std::map<std::string, std::string>& metadata) {
  with_context(path.string(), [&] {
    std::vector<Slot> slots = arrange(plan);
    const std::string header = header_text(slots, metadata);
    std::map<std::string, size_t, std::less<>> index;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!index.emplace(slots[i].name, i).second) {
        throw usage_error("tensor names", "each once", quote(slots[i].name) + " twice");
      }
    }
    state_ = std::make_unique<State>(path);
    state_->slots = std::move(slots);
    state_->index = std::move(index);
    const uint64_t length = header.size();
    state_->file.write(std::as_bytes(std::span(&length, 1)));
    state_->file.write(header);
    state_->data_start = state_->file.position();
  });
}

SafetensorsWriter::~SafetensorsWriter() = default;
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;

void SafetensorsWriter::write(std::string_view name, const TensorView& view) {
  const auto at = state_->index.find(name);
  if (at == state_->index.end()) {
    throw usage_error("tensor", "a planned name", quote(name)).in(state_->path);
  }
  Slot& slot = state_->slots[at->second];
  if (slot.dtype != view.dtype() || slot.shape != view.shape()) {
    throw usage_error("tensor",
                      std::string(mainstem::name(slot.dtype)) + " " + to_string(slot.shape),
                      std::string(mainstem::name(view.dtype())) + " " + to_string(view.shape()))
        .in(quote(name))
        .in(state_->path);
  }
  if (slot.written)
    throw usage_error("tensor", "one write", "two").in(quote(name)).in(state_->path);
  state_->file.write_at(state_->data_start + slot.begin, {view.data(), slot.bytes});
  slot.written = true;
}

void SafetensorsWriter::finish() {
  std::string missing;
  for (const Slot& slot : state_->slots) {
    if (!slot.written) missing += (missing.empty() ? "" : ", ") + quote(slot.name);
  }
  if (!missing.empty()) {
    throw usage_error("tensors", "all planned ones written", missing + " missing").in(state_->path);
  }
  state_->file.commit();
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorPlan> plan;
  for (const NamedTensor& tensor : tensors) {
    plan.push_back({tensor.name, tensor.view.dtype(), tensor.view.shape()});
  }
  SafetensorsWriter writer(path, plan, metadata);
  for (const NamedTensor& tensor : tensors) writer.write(tensor.name, tensor.view);
  writer.finish();
}

}  // namespace mainstem
