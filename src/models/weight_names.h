#pragma once

#include <string>
#include <string_view>

#include "models/families/family.h"

namespace mainstem {

/// "blocks.3.q.weight" seen through a family's rows: the row, the block and the suffix.
struct WeightPlace {
  const WeightRow* row = nullptr;
  int layer = -1;
  std::string suffix;  ///< ".weight" or ".bias"
};
/// An internal Error where the family has no row for the weight.
WeightPlace find_place(const Family& family, const std::string& own_name);

/// The pattern with the block's number in place of "{N}", and the suffix.
std::string fill(std::string_view pattern, const WeightPlace& place);

/// For GGUF: source row of each row of q or k; undoes the converter's permutation, in which row
/// 2j + s of a head holds what belongs in row s * E/2 + j.
std::vector<int64_t> unpermuted_rows(int64_t heads, int64_t head_width);

}  // namespace mainstem
