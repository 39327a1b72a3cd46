#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainstem/program.h"
#include "mainstem/sites.h"

namespace mainstem {

/// Stands for the number of a block in names of the caller's map.
inline constexpr char kAnyBlock = '*';

/// The name with `number` in the place of its first `*`.
std::string with_number(std::string_view pattern, int64_t number);

/// How many blocks a stack has; 0 where the model has no such stack.
int64_t blocks_of(const Program& program, Stack stack);

/// A line of the caller's map, for each block that its `*` stands for.
struct NameLine {
  std::string theirs;  ///< as written
  std::string ours;
  /// What the dump's tensors are called, and what they stand for. Where one tensor holds the value
  /// of every block, these are the names of its slices.
  std::vector<std::pair<std::string, SiteId>> names = {};
  int64_t stacked = 0;  ///< blocks along the first axis of the one tensor; 0: none
};

/// An Error (bad input) where a line names no step of the program.
std::vector<NameLine> write_out(const Program& program,
                                const std::vector<std::pair<std::string, std::string>>& names);

}  // namespace mainstem
