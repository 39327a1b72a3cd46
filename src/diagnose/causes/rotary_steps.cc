#include "diagnose/causes/rotary_steps.h"

#include <algorithm>

namespace mainstem::causes {

std::vector<ValueId> turned(const Place& place) {
  if (place.block() == nullptr || !place.block()->attention.rotary) return {};
  return place.made_by(Op::kRotary);
}

const RotarySpec& rotary_spec(const Place& place) { return *place.block()->attention.rotary; }

std::vector<RotarySpec> other_rotary_specs(const Place& place) {
  std::vector<RotarySpec> result;
  for (const BlockSpec& block : place.stack().blocks) {
    const auto& rotary = block.attention.rotary;
    if (!rotary || rotary == place.block()->attention.rotary) continue;
    if (std::find(result.begin(), result.end(), *rotary) == result.end()) result.push_back(*rotary);
  }
  return result;
}

Change change_rotary(std::vector<ValueId> values,
                     std::function<void(RotaryParams&, Numbers)> change) {
  return [values = std::move(values), change = std::move(change)](Edited& edited, Numbers n) {
    for (ValueId value : values) {
      change(std::get<RotaryParams>(maker(edited.program, value).params), n);
    }
  };
}

}  // namespace mainstem::causes
