#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/families/family.h"

namespace mainstem {

/// "blocks.3.q.weight" seen through a family's rows.
struct WeightPlace {
  const WeightRow* row = nullptr;
  std::string part;    ///< the own name's last word: "q"
  std::string suffix;  ///< "weight" or "bias"
  int layer = -1;      ///< -1 outside the blocks
  int64_t blocks = 0;  ///< L, for names that count on after the blocks
  bool exact = false;  ///< the row names this suffix alone
};
/// An internal Error where the family has no row for the weight.
WeightPlace find_place(const Family& family, const std::string& own_name);

/// The names that a weight may have in a file, most likely first. `head` fills "{H}".
std::vector<std::string> names_of(std::string_view pattern, const WeightPlace& place,
                                  int64_t head = 0);

}  // namespace mainstem
