#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mainstem/tokenizer.h"

namespace mainstem::tokenizer {

/// What one call of encode asks for, and what it cost.
struct EncodeContext {
  MissingByte missing = MissingByte::kError;
  /// Look-ups, steps through tries and moves in heaps so far. Tests hold its growth to n log n.
  uint64_t work = 0;
};

/// The part of a tokenizer that turns one pre-tokenized word into ids.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of `word`, which is not empty. Immutable; any thread.
  virtual void encode(std::string_view word, EncodeContext& context,
                      std::vector<int64_t>& ids) const = 0;
};

/// The part of a text that no token stands for, as an Error.
[[noreturn]] void refuse_missing(std::string_view part, std::string_view word);

}  // namespace mainstem::tokenizer
