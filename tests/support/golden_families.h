#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

// The tiny models that tests/generators/make_families.py writes, one folder for each family.

namespace mainstem::testing {

inline std::filesystem::path golden_families_folder() {
  return std::filesystem::path(MAINSTEM_TEST_DATA) / "golden" / "families";
}

/// Their names, sorted.
inline std::vector<std::string> golden_families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_families_folder())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mainstem::testing
