#pragma once

#include <cstdint>

#include "mainstem/error.h"

namespace mainstem {

/// Bounds what a parser builds by what the file really holds: 64 MB plus 8 times the bytes of its
/// header. Parsers charge an estimate before they allocate.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t header_bytes)
      : left_((uint64_t{64} << 20) + 8 * header_bytes), total_(left_) {}

  void charge(uint64_t bytes, const char* name) {
    if (bytes > left_) {
      throw bad_input(name,
                      "content that needs at most " + std::to_string(total_) +
                          " bytes of memory (64 MiB + 8 x the text)",
                      "more");
    }
    left_ -= bytes;
  }

 private:
  uint64_t left_;
  uint64_t total_;
};

}  // namespace mainstem
