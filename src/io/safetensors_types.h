#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "mainstem/tensor.h"

namespace mainstem {

/// One dtype of the format. The table's order is that of the official reader's enum, which its
/// writer sorts by: safetensors/src/tensor.rs, 0.8.0.
struct SafetensorsType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;
};

std::span<const SafetensorsType> safetensors_types();
/// nullptr where the format knows no such type.
const SafetensorsType* find_safetensors_type(std::string_view name);
const SafetensorsType* find_safetensors_type(DType dtype);

}  // namespace mainstem
