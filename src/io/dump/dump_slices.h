#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "mainstem/dump.h"

namespace mainstem {

/// A tensor that holds several values along its first axis.
struct StackedTensor {
  size_t tensor = 0;               ///< index into the dump's
  std::vector<std::string> names;  ///< of the slices, as many as the axis is long
};

/// The dump with each of the tensors taken apart, the slices standing in its place.
Dump take_apart(const Dump& dump, std::span<const StackedTensor> stacked);

}  // namespace mainstem
