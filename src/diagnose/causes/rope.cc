// Rotary positions of other pairs or positions, or at another place.

#include <fmt/format.h>

#include <cmath>

#include "diagnose/causes/passes.h"
#include "diagnose/causes/rotary_steps.h"
#include "runtime/rotary_table.h"

namespace mainstem::causes {
namespace {

/// A rotation by any frequencies and one factor.
RotarySpec with_frequencies(RotarySpec spec, const std::vector<double>& frequencies,
                            double factor) {
  spec.scaling = {};
  spec.scaling.kind = factor == 1 ? RotaryScalingKind::kDivisors : RotaryScalingKind::kLongRope;
  spec.scaling.attention_factor = factor;
  for (size_t j = 0; j < frequencies.size(); ++j) {
    const double exponent = -2.0 * static_cast<double>(j) / static_cast<double>(spec.width);
    spec.scaling.short_divisors.push_back(std::pow(spec.base, exponent) / frequencies[j]);
  }
  spec.scaling.long_divisors = spec.scaling.short_divisors;
  return spec;
}

/// The pairs of one form, each channel by the angle that it has in the other: the first channels of
/// the pairs from one rotation, the second ones from another, so that angles are as exact as in
/// any.
void mix_forms(Program& program, ValueId value, RotaryPairing pairs) {
  const auto right = std::get<RotaryParams>(maker(program, value).params);
  const bool halves = pairs == RotaryPairing::kHalfSplit;
  const int64_t width = right.rotary.width, half = width / 2, head_width = right.head_width;
  const RotaryFrequencies angles = rotary_frequencies(right.rotary, 1);
  const auto rotation = [&](bool second) {
    std::vector<double> frequencies;
    for (int64_t j = 0; j < half; ++j) {
      const int64_t channel = halves ? j + (second ? half : 0) : 2 * j + (second ? 1 : 0);
      const int64_t angle_of = halves ? channel / 2 : channel % half;
      frequencies.push_back(angles.frequency[static_cast<size_t>(angle_of)]);
    }
    RotaryParams params = right;
    params.rotary = with_frequencies(right.rotary, frequencies, angles.attention_factor);
    params.rotary.pairing = pairs;
    return params;
  };
  const ValueId source = maker(program, value).inputs[0];
  maker(program, value).params = rotation(false);
  insert_before(program, value,
                custom_step({.note = "pairs of one form, angles of the other",
                             .apply = [=](std::span<const std::span<const double>> in,
                                          std::span<double> out, int64_t) {
                               for (size_t i = 0; i < out.size(); ++i) {
                                 const auto e = static_cast<int64_t>(i) % head_width;
                                 const bool first = halves ? e < half : e % 2 == 0;
                                 out[i] = in[first || e >= width ? 0 : 1][i];
                               }
                             }}));
  const ValueId made = maker(program, value).inputs[0];
  const ValueId other = insert_step(
      program, made,
      {.op = Op::kRotary, .inputs = {source}, .params = rotation(true), .formula = "turned"});
  maker(program, value).inputs.push_back(other);
}

std::string_view text(RotaryPairing pairing) {
  return pairing == RotaryPairing::kHalfSplit ? "channel j turns with j + r/2 (half-split)"
                                              : "channel 2j turns with 2j + 1 (interleaved)";
}

void turn(Program& program, ValueId value, const RotarySpec& spec, int64_t heads,
          int64_t head_width) {
  insert_behind(
      program, value,
      {.op = Op::kRotary, .params = RotaryParams{spec, heads, head_width}, .formula = "turned"});
}

}  // namespace

void rope_pairing(const Place& place, Forms& forms) {
  const auto values = turned(place);
  if (values.empty() || rotary_spec(place).width == 2) return;  // one pair is the same pair
  const bool halves = rotary_spec(place).pairing == RotaryPairing::kHalfSplit;
  const RotaryPairing wrong = halves ? RotaryPairing::kInterleaved : RotaryPairing::kHalfSplit;
  forms.add({.yours = std::string(text(wrong)),
             .reference = std::string(text(rotary_spec(place).pairing)),
             .usual_place = "the rotate function (rotate_half against rotate_every_two), or a "
                            "converter that did not permute the rows of q and k",
             .fix = halves ? "Pair channel j with j + r/2." : "Pair channel 2j with 2j + 1."},
            place.shown(values), change_rotary(values, [wrong](RotaryParams& params, Numbers) {
              params.rotary.pairing = wrong;
            }));
  const auto mix = [&](bool turns_halves) {
    const RotaryPairing pairs =
        turns_halves ? RotaryPairing::kHalfSplit : RotaryPairing::kInterleaved;
    forms.add(
        {.yours = turns_halves ? "halves turn, by the angles of an interleaved layout"
                               : "neighbours turn, by the angles of a half-split layout",
         .reference = std::string(text(rotary_spec(place).pairing)),
         .usual_place = "cosine and sine laid out for one form (repeat_interleave against cat), "
                        "the rotate function of the other",
         .fix = "Take the angles and the rotate function from one form."},
        place.shown(values), [values, pairs](Edited& edited, Numbers) {
          for (ValueId value : values) mix_forms(edited.program, value, pairs);
        });
  };
  // The rotate function is wrong, then the angles are.
  mix(!halves);
  mix(halves);
}

void rope_position(const Place& place, Forms& forms) {
  const auto values = turned(place);
  if (values.empty()) return;
  const auto add = [&](std::string yours, std::string usual_place, std::string fix,
                       std::function<void(RotaryParams&, Numbers)> change,
                       std::vector<FreeNumber> numbers = {}) {
    forms.add({.yours = std::move(yours),
               .reference = "p counts cached tokens and leaves padding out",
               .usual_place = std::move(usual_place),
               .fix = std::move(fix)},
              place.shown(values), change_rotary(values, std::move(change)), std::move(numbers));
  };
  add("positions are off by a constant", "the code that makes position ids",
      "Start positions at 0 and count every token that is no padding.",
      [](RotaryParams& params, Numbers n) { params.offset = static_cast<int64_t>(n[0]); },
      {{.name = "offset", .low = -64, .high = 64, .whole = true, .usual = {1, -1, 2, -2}}});
  add("padding on the left counts as positions", "one arange for all rows of a padded batch",
      "Count positions from the mask: cumsum(mask) − 1.",
      [](RotaryParams& params, Numbers) { params.position = RowPosition::kWithPadding; });
  add("positions restart at 0 in every pass", "the decode step: arange over the new tokens alone",
      "Start a pass's positions behind the cached tokens.",
      [](RotaryParams& params, Numbers) { params.position = RowPosition::kOfPass; });
  positions_restart(place, forms, values);
}

void rope_missing(const Place& place, Forms& forms) {
  if (place.block() == nullptr) return;
  const auto values = turned(place);
  const auto add = [&](const std::vector<ValueId>& chosen, const std::string& which) {
    forms.add({.yours = which + " not turned",
               .reference = "q and k are turned by their positions",
               .usual_place = "attention's forward",
               .fix = "Apply rotary positions to q and to k."},
              place.shown(chosen), [chosen](Edited& edited, Numbers) {
                for (ValueId value : chosen) {
                  replace_by_custom(edited.program, value, pass_through("x, not turned"));
                }
              });
  };
  if (!values.empty()) add(values, "q and k are");
  for (ValueId value : values) add({value}, place.label(value) + " is");
  if (!values.empty()) return;
  for (const RotarySpec& other : other_rotary_specs(place)) {
    const Step& attention = maker(place.program(), place.attentions().front().mix);
    const auto& params = std::get<AttentionParams>(attention.params);
    if (other.width > params.head_width) continue;
    forms.add(
        {.yours = "q and k are turned",
         .reference = "this kind of layer has no rotary positions",
         .usual_place = "attention's forward: rotary positions applied in every layer",
         .fix = "Leave rotary positions out in this layer."},
        place.shown({attention.scores}),
        [other, q = attention.inputs[0], k = attention.inputs[1], params](Edited& edited, Numbers) {
          turn(edited.program, q, other, params.heads, params.head_width);
          turn(edited.program, k, other, params.kv_heads, params.head_width);
        });
  }
}

void rope_twice(const Place& place, Forms& forms) {
  const auto values = turned(place);
  if (values.empty()) return;
  const auto add = [&](const std::vector<ValueId>& chosen, const std::string& which) {
    forms.add({.yours = which + " turned twice",
               .reference = "turned once",
               .usual_place = "attention's forward: once by the caller and once inside, or keys "
                              "cached after the rotation and turned again",
               .fix = "Apply rotary positions once."},
              place.shown(chosen), [chosen](Edited& edited, Numbers) {
                for (ValueId value : chosen) {
                  const Step& step = maker(edited.program, value);
                  insert_before(edited.program, value,
                                {.op = Op::kRotary, .params = step.params, .formula = "turned"});
                }
              });
  };
  add(values, "q and k are");
  for (ValueId value : values) add({value}, place.label(value) + " is");
  const AttentionAt& attention = place.attentions().front();
  const AttentionSpec& spec = place.block()->attention;
  forms.add({.yours = "v is turned, too",
             .reference = "only q and k are turned",
             .usual_place = "attention's forward, where q, k and v are still one tensor",
             .fix = "Leave v as it is."},
            place.shown({attention.mix}), [v = attention.v, spec](Edited& edited, Numbers) {
              turn(edited.program, v, *spec.rotary, spec.kv_heads, spec.head_width);
            });
}

}  // namespace mainstem::causes
