#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mainstem/tensor.h"

namespace mainstem {

/// Where the numbers of one weight of a program lie. Nothing is copied: the tensor is a mapped
/// file's or the caller's own memory, which must live as long as the model (see `keep_alive`).
/// All changes are changes of layout, so a weight means the same whatever file it came from.
struct WeightSource {
  TensorView tensor = {};  ///< [out, in], [n], or rows of a fused tensor (row_range)
  std::vector<int64_t> row_order =
      {};                        ///< row n of the weight is row row_order[n]; empty: as it is
  bool transposed = false;       ///< the tensor is [in, out]
  std::string stored_name = {};  ///< what its file calls it, for messages
  std::shared_ptr<const void> keep_alive = {};
};

/// By the program's weight names.
using WeightSources = std::map<std::string, WeightSource>;

}  // namespace mainstem
