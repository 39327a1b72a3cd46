#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors_types.h"
#include "mainstem/tensor.h"

namespace mainstem {

/// What the JSON header says of one tensor, nothing of it compared with the file yet.
struct SafetensorsEntry {
  std::string name;
  std::string_view dtype_name;            ///< in the table, or in SafetensorsHeader::unknown_types
  const SafetensorsType* type = nullptr;  ///< nullptr: not a type of the format
  Shape shape;
  uint64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  std::shared_ptr<std::set<std::string, std::less<>>> unknown_types;
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Parses the header text. Errors: anything but the documented structure, a key that is missing,
/// unknown or given twice inside an entry, a rank above 64, more than 64 unknown types. Duplicate
/// names are left to the caller.
SafetensorsHeader parse_safetensors_header(std::string_view text);

}  // namespace mainstem
