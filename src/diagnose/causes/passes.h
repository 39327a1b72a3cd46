#pragma once

#include <vector>

#include "diagnose/causes/place.h"

namespace mainstem::causes {

/// Positions of a rotation or of a table that start anew with every pass.
void positions_restart(const Place& place, Forms& forms, const std::vector<ValueId>& values);
/// Causal masks that start anew with every pass.
void masks_restart(const Place& place, Forms& forms, const AttentionAt& attention);
/// Scalings that go by the length: they are done too early, or tokens cached earlier keep what was
/// right then.
void frequencies_in_time(const Place& place, Forms& forms, const std::vector<ValueId>& values);

}  // namespace mainstem::causes
