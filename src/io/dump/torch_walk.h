#pragma once

#include <string>
#include <vector>

#include "io/dump/dump_reader.h"
#include "io/dump/torch_objects.h"

namespace mainstem {

/// A tensor found in the containers of a pickle, or a list of whole numbers (token ids).
struct TorchLeaf {
  const TorchTensor* tensor = nullptr;  ///< nullptr: `numbers` holds the values
  Tensor numbers;
};

/// Walks dicts, lists and tuples from `root` on. Levels of a name are joined by '.', items of lists
/// are numbered from 0; a lone tensor is called `stem`. Appends to `content`, where a tensor's id
/// is its place among the leaves that are returned. Other values are passed over.
std::vector<TorchLeaf> collect_tensors(const Pickle& pickle, const TorchWorld& world,
                                       PickleRef root, const std::string& stem,
                                       MemoryBudget& budget, DumpContent& content);

}  // namespace mainstem
