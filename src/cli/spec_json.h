#pragma once

#include "cli/json_writer.h"
#include "mainstem/spec.h"

namespace mainstem::cli {

/// A spec as JSON: the fields of mainstem/spec.h under their own names, enums by name. Equal
/// blocks are written once, with the numbers of the layers that have them.
void write_spec(JsonWriter& json, const ModelSpec& spec);
void write_spec(JsonWriter& json, const BlockSpec& spec);

/// Layers with equal blocks, in the order of their first one.
struct BlockGroup {
  const BlockSpec* block = nullptr;
  std::vector<int64_t> layers;
};
std::vector<BlockGroup> group_blocks(const StackSpec& stack);
/// "0-4,6" of rising numbers.
std::string layers_text(const std::vector<int64_t>& layers);

}  // namespace mainstem::cli
