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
  TensorView tensor = {};  ///< [out, in] or [n]; with a row order it may hold other weights' rows
  /// Row n of the weight is row row_order[n] of the tensor (column, where that is transposed);
  /// empty: as it is.
  std::vector<int64_t> row_order = {};
  bool transposed = false;       ///< the tensor is [in, out]
  std::string stored_name = {};  ///< what its file calls it, for messages
  std::shared_ptr<const void> keep_alive = {};
};

/// Bytes that the weight takes in its file: its own rows of a tensor shared with others.
int64_t stored_bytes(const WeightSource& source);

/// By the program's weight names.
using WeightSources = std::map<std::string, WeightSource>;

}  // namespace mainstem
