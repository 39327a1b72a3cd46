#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "mainstem/gguf.h"

namespace mainstem {

/// One tensor type of ggml's table (ggml.h, enum ggml_type; sizes from ggml-common.h and gguf-py
/// 0.19.0).
struct GgmlType {
  uint32_t id;
  std::string_view name;
  uint32_t block_elements;
  uint32_t block_bytes;
  std::optional<DType> dtype;  ///< empty: known, but cannot be read
};

std::span<const GgmlType> ggml_types();
/// nullptr for numbers that are dead or newer than the table.
const GgmlType* find_ggml_type(uint32_t id);

/// Bytes of one value of a metadata type; 0 for strings and arrays.
uint32_t value_bytes(GgufType type);

}  // namespace mainstem
