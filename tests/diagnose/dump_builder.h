#pragma once

// Dumps in memory, for tests of what is made of them.

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mainstem/dump.h"
#include "mainstem/model.h"
#include "mainstem/safetensors.h"
#include "mainstem/session.h"
#include "support/golden_families.h"

namespace mainstem::testing {

/// A safetensors file that is put together tensor by tensor.
class DumpBuilder {
 public:
  void add(const std::string& name, const Shape& shape, const std::vector<double>& values,
           DType dtype = DType::kF64) {
    Entry entry{name, dtype, shape, {}};
    for (const double value : values) {
      switch (dtype) {
        case DType::kF64:
          append(entry.bytes, value);
          break;
        case DType::kF32:
          append(entry.bytes, static_cast<float>(value));
          break;
        case DType::kBF16:
          append(entry.bytes, f32_to_bf16(static_cast<float>(value)));
          break;
        case DType::kF16:
          append(entry.bytes, f32_to_f16(static_cast<float>(value)));
          break;
        default:
          append(entry.bytes, static_cast<int64_t>(value));
          break;
      }
    }
    entries_.push_back(std::move(entry));
  }
  void add_ids(const std::string& name, const Shape& shape, const std::vector<int64_t>& ids) {
    add(name, shape, {ids.begin(), ids.end()}, DType::kI64);
  }

  const Dump& build() {
    std::string header = "{", data;
    for (const Entry& entry : entries_) {
      const char* type = entry.dtype == DType::kF64    ? "F64"
                         : entry.dtype == DType::kF32  ? "F32"
                         : entry.dtype == DType::kBF16 ? "BF16"
                         : entry.dtype == DType::kF16  ? "F16"
                                                       : "I64";
      std::string shape;
      for (const int64_t dim : entry.shape) {
        shape += (shape.empty() ? "" : ",") + std::to_string(dim);
      }
      header += (header.size() > 1 ? ",\"" : "\"") + entry.name + "\":{\"dtype\":\"" + type +
                "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(data.size()) +
                "," + std::to_string(data.size() + entry.bytes.size()) + "]}";
      data += entry.bytes;
    }
    header += "}";
    while (header.size() % 8 != 0) header += ' ';
    const auto length = static_cast<uint64_t>(header.size());
    bytes_.assign(reinterpret_cast<const char*>(&length), 8);
    bytes_ += header + data;
    dump_ = Dump::from_bytes(std::as_bytes(std::span(bytes_)), "dump.safetensors");
    return *dump_;
  }

 private:
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
    std::string bytes;
  };
  template <typename T>
  static void append(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  std::vector<Entry> entries_;
  std::string bytes_;
  std::optional<Dump> dump_;
};

/// A tiny model of tests/golden and the tokens its golden values were made with.
struct GoldenModel {
  explicit GoldenModel(const std::filesystem::path& folder)
      : model(Model::load(folder, {.allow_unknown_keys = {}, .skip_tokenizer = true})) {
    const SafetensorsFile golden = SafetensorsFile::open(folder / "golden.safetensors");
    const auto ids = [&](const std::string& name) -> std::vector<int64_t> {
      if (golden.find(name) == nullptr) return {};
      const TensorView view = golden.view(name);
      const auto values = view.as<int64_t>();
      return {values.begin(), values.end()};
    };
    input.tokens = ids("tokens");
    input.token_types = ids("token_types");
    input.encoder_tokens = ids("encoder_tokens");
  }
  /// Every value of a pass in double; those that only a continued cache has are not made.
  std::vector<TracedValue> values() const { return values_of({input}); }
  std::vector<TracedValue> values_of(const std::vector<SequenceInput>& inputs) const {
    return trace(model.bound(), inputs, all_sites(model.program()), Compute::kF64, 1);
  }

  Model model;
  SequenceInput input;
};

inline GoldenModel golden_family(const std::string& family) {
  return GoldenModel(golden_families_folder() / family);
}

}  // namespace mainstem::testing
