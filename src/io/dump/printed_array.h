#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/memory_budget.h"
#include "mainstem/dump.h"

namespace mainstem {

/// Reads nested lists of numbers as programs print them, "[[1.0, 2.0, ..., 9.0], ..., [...]]".
/// White space and line ends do not matter, nor does a comma before a closing bracket. Each list
/// has either as many items as its dimension, or fewer with one "..." among them, which stands
/// for the ones between.
class PrintedArrayParser {
 public:
  /// Parses `text` from `offset` on; memory is charged to `budget`.
  PrintedArrayParser(std::string_view text, size_t offset, MemoryBudget& budget)
      : text_(text), at_(offset), budget_(budget) {}

  /// One array of `shape` (rank 0: one number), whose elements are numbered from `first` on.
  /// Appends to `out`.
  void parse(std::span<const int64_t> shape, int64_t first, PrintedValues& out);
  /// Just behind what was parsed.
  size_t offset() const { return at_; }

 private:
  void parse_list(std::span<const int64_t> shape, PrintedValues& out);
  void parse_number(PrintedValues& out);
  void skip_spaces();
  bool accept(std::string_view word);
  [[noreturn]] void fail(const std::string& expected) const;

  std::string_view text_;
  size_t at_;
  MemoryBudget& budget_;
};

/// "line 12", for messages.
std::string line_of(std::string_view text, size_t offset);

}  // namespace mainstem
