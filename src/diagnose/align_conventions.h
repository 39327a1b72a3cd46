#pragma once

#include <span>
#include <string>
#include <vector>

#include "diagnose/align_layout.h"
#include "diagnose/name_table.h"

namespace mainstem {

/// The conventions in which somebody may have written a value that has no name for them.
std::vector<Convention> conventions_of(const Program& program, ValueId value);

/// The value, of what is that value in another convention. `reference` is what the reference step
/// makes of the same inputs, [B,T,…] as `shape`, and lends what the convention has lost.
Numbers undo(Convention convention, Numbers theirs, const Program& program,
             const WeightSources& weights, ValueId value, const Shape& shape,
             std::span<const double> reference);

/// Values that use such a convention together: the convention and what it spans (-1: all blocks).
struct ConventionGroup {
  Convention convention = Convention::kNone;
  int layer = -1;
  Stack stack = Stack::kOnly;
  ValueId value = kNoId;  ///< where each value stands for itself
  auto operator<=>(const ConventionGroup&) const = default;
};
ConventionGroup group_of(Convention convention, const SiteId& site, ValueId value);

/// One sentence for a report: what was undone, and where ("blocks.*.scores").
std::string describe(Convention convention, const std::string& where);

/// The earliest name of a value.
SiteId first_site(const Program& program, ValueId value);
/// H of the attention that the value belongs to; 0 outside of blocks.
int64_t heads_of(const Program& program, ValueId value);

}  // namespace mainstem
