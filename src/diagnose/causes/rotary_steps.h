#pragma once

#include "diagnose/causes/place.h"

// The rotary steps of a block, as the forms of rope.* change them.

namespace mainstem::causes {

/// Every rotary step of the block: q's and k's. None outside of the blocks.
std::vector<ValueId> turned(const Place& place);
/// What the block's rotary steps do; the block has them.
const RotarySpec& rotary_spec(const Place& place);
/// The rotary specs of the stack's other blocks, each once and other than this one's.
std::vector<RotarySpec> other_rotary_specs(const Place& place);
/// The rotary steps get other parameters.
Change change_rotary(std::vector<ValueId> values,
                     std::function<void(RotaryParams&, Numbers)> change);

}  // namespace mainstem::causes
