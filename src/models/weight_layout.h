#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/families/family.h"

namespace mainstem {

/// The block's numbers that say where a part lies in a fused tensor.
struct FusedSizes {
  int64_t heads = 0, kv_heads = 0, head_width = 0;  ///< H, K, E
  int64_t hidden = 0;                               ///< F
};

struct StoredRows {
  std::vector<int64_t> order;  ///< empty: all rows as they lie
  int64_t total = 0;           ///< rows that the stored tensor must have; 0: those of the weight
};

/// Where the rows of `part` ("q", "k", "v", "cross_q", …, "mlp_gate", "mlp_value") lie.
StoredRows stored_rows(RowLayout rows, std::string_view part, const FusedSizes& sizes);

}  // namespace mainstem
