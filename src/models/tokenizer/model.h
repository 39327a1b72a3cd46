#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mainstem/tokenizer.h"

namespace mainstem::tokenizer {

/// The part of a tokenizer that turns one pre-tokenized word into ids.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of `word`, which is not empty. Immutable; any thread.
  virtual void encode(std::string_view word, MissingByte missing,
                      std::vector<int64_t>& ids) const = 0;
};

}  // namespace mainstem::tokenizer
