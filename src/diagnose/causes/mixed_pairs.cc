// Rotary positions with the pairs of one form and the angles of the other.

#include "diagnose/causes/mixed_pairs.h"

#include "diagnose/causes/channels.h"

namespace mainstem::causes {
namespace {

/// Where the channels of a head stand in one form of pairs.
struct Layout {
  bool halves;
  int64_t turned;  ///< channels of a head that turn

  int64_t pair(int64_t channel) const { return halves ? channel % (turned / 2) : channel / 2; }
  bool is_first(int64_t channel) const { return halves ? channel < turned / 2 : channel % 2 == 0; }
  int64_t first_of(int64_t pair) const { return halves ? pair : 2 * pair; }
  int64_t second_of(int64_t pair) const { return halves ? pair + turned / 2 : 2 * pair + 1; }
};

/// No rotation does this: two channels that share an angle have other partners. Two rotations of
/// rearranged channels do, the one for the first channel of each angle and the other for the
/// second; so angles are rounded as in any rotation.
struct Arranged {
  std::vector<int64_t> input[2];  ///< what each rotation reads
  std::vector<int64_t> result;    ///< of both results side by side
};

Arranged arrange(const Layout& pairs, const Layout& angles, int64_t heads, int64_t head_width) {
  Arranged arranged;
  const int64_t width = heads * head_width;
  for (auto& order : arranged.input) {
    for (int64_t i = 0; i < width; ++i) order.push_back(i);
  }
  arranged.result = arranged.input[0];
  for (int64_t head = 0; head < width; head += head_width) {
    for (int64_t angle = 0; angle < angles.turned / 2; ++angle) {
      const int64_t first = angles.first_of(angle), second = angles.second_of(angle);
      for (int which = 0; which < 2; ++which) {
        const int64_t channel = which == 0 ? first : second;
        const int64_t pair = pairs.pair(channel);
        auto& order = arranged.input[which];
        order[static_cast<size_t>(head + first)] = head + pairs.first_of(pair);
        order[static_cast<size_t>(head + second)] = head + pairs.second_of(pair);
        arranged.result[static_cast<size_t>(head + channel)] =
            which * width + head + (pairs.is_first(channel) ? first : second);
      }
    }
  }
  return arranged;
}

}  // namespace

void mix_pairs(Program& program, ValueId rotated, RotaryPairing turns) {
  const RotaryParams right = std::get<RotaryParams>(maker(program, rotated).params);
  const ValueId input = maker(program, rotated).inputs[0];
  RotaryParams params = right;
  const bool halves = turns == RotaryPairing::kHalfSplit;
  params.rotary.pairing = halves ? RotaryPairing::kInterleaved : RotaryPairing::kHalfSplit;
  const Layout pairs{halves, right.rotary.width}, angles{!halves, right.rotary.width};
  const Arranged arranged = arrange(pairs, angles, right.heads, right.head_width);
  std::vector<ValueId> results;
  ValueId last = input;
  for (const auto& order : arranged.input) {
    Step pick = custom_step(pick_channels("partners side by side", order));
    pick.inputs = {input};
    const ValueId picked = insert_step(program, last, std::move(pick));
    last =
        insert_step(program, picked,
                    {.op = Op::kRotary, .inputs = {picked}, .params = params, .formula = "turned"});
    results.push_back(last);
  }
  replace_by_custom(program, rotated,
                    pick_channels("pairs of one form, angles of the other", arranged.result));
  maker(program, rotated).inputs = results;
}

}  // namespace mainstem::causes
