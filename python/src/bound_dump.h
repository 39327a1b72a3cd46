#pragma once

#include <vector>

#include "arrays.h"
#include "mainstem/dump.h"

namespace mainstem::python {

/// A dump and the arrays that its values lie in, where it was made from arrays.
struct OwnedDump {
  Dump dump;
  std::vector<NamedArray> arrays;
};

}  // namespace mainstem::python
