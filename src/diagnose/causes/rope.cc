// Rotary positions with other angles, or at another place.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnose/causes/mixed_pairs.h"
#include "diagnose/causes/passes.h"
#include "runtime/rotary_table.h"

namespace mainstem::causes {
namespace {

/// Every rotary step of the block: q's and k's.
std::vector<ValueId> turned(const Place& place) {
  return place.block() != nullptr ? place.made_by(Op::kRotary) : std::vector<ValueId>{};
}

const RotarySpec& spec_of(const Place& place) { return *place.block()->attention.rotary; }

Change change_params(std::vector<ValueId> values,
                     std::function<void(RotaryParams&, Numbers)> change) {
  return [values = std::move(values), change = std::move(change)](Edited& edited, Numbers n) {
    for (ValueId value : values) {
      change(std::get<RotaryParams>(maker(edited.program, value).params), n);
    }
  };
}

/// One divisor per pair: a list grows or shrinks with the width.
void set_width(RotarySpec& spec, int64_t width) {
  spec.width = width;
  for (auto* list : {&spec.scaling.short_divisors, &spec.scaling.long_divisors}) {
    if (!list->empty()) list->resize(static_cast<size_t>(width / 2), 1.0);
  }
}

/// The rotary specs of the stack's other blocks, each once and other than this one's.
std::vector<RotarySpec> others(const Place& place) {
  std::vector<RotarySpec> result;
  for (const BlockSpec& block : place.stack().blocks) {
    const auto& rotary = block.attention.rotary;
    if (!rotary || rotary == place.block()->attention.rotary) continue;
    if (std::find(result.begin(), result.end(), *rotary) == result.end()) result.push_back(*rotary);
  }
  return result;
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
  if (values.empty() || spec_of(place).width == 2) return;  // one pair is the same pair
  const bool halves = spec_of(place).pairing == RotaryPairing::kHalfSplit;
  const RotaryPairing wrong = halves ? RotaryPairing::kInterleaved : RotaryPairing::kHalfSplit;
  forms.add({.yours = std::string(text(wrong)),
             .reference = std::string(text(spec_of(place).pairing)),
             .usual_place = "the rotate function (rotate_half against rotate_every_two), or a "
                            "converter that did not permute the rows of q and k",
             .fix = halves ? "Pair channel j with j + r/2." : "Pair channel 2j with 2j + 1."},
            place.shown(values), change_params(values, [wrong](RotaryParams& params, Numbers) {
              params.rotary.pairing = wrong;
            }));
  const auto mix = [&](bool turns_halves) {
    const RotaryPairing pairs =
        turns_halves ? RotaryPairing::kHalfSplit : RotaryPairing::kInterleaved;
    forms.add(
        {.yours = turns_halves ? "halves turn, by the angles of an interleaved layout"
                               : "neighbours turn, by the angles of a half-split layout",
         .reference = std::string(text(spec_of(place).pairing)),
         .usual_place = "cosine and sine laid out for one form (repeat_interleave against cat), "
                        "the rotate function of the other",
         .fix = "Take the angles and the rotate function from one form."},
        place.shown(values), [values, pairs](Edited& edited, Numbers) {
          for (ValueId value : values) mix_pairs(edited.program, value, pairs);
        });
  };
  // The rotate function is wrong, then the angles are.
  mix(!halves);
  mix(halves);
}

void rope_base(const Place& place, Forms& forms) {
  const auto values = turned(place);
  if (values.empty() || spec_of(place).width == 2) return;  // base^0
  const double right = spec_of(place).base;
  std::vector<double> usual{1e4, 5e5, 1e6, 1e5, 1e7, 2e5};
  for (const RotarySpec& other : others(place)) {
    if (std::find(usual.begin(), usual.end(), other.base) == usual.end()) {
      usual.push_back(other.base);
    }
  }
  forms.add(
      {.yours = "another base",
       .reference = "base " + number(right),
       .usual_place = "a default of 10000 in the code that makes the frequencies, or the base "
                      "of the other kind of layers",
       .fix = fmt::format("Use base {} (rope_theta).", number(right))},
      place.shown(values),
      change_params(values, [](RotaryParams& params, Numbers n) { params.rotary.base = n[0]; }),
      {{.name = "base",
        .low = 1e2,
        .high = 1e8,
        .logarithmic = true,
        .usual = without(usual, right)}});
  for (const RotarySpec& other : others(place)) {
    if (other.base == right || other.scaling == spec_of(place).scaling) continue;
    forms.add({.yours = fmt::format("base {} and its scaling, those of the other kind of layers",
                                    number(other.base)),
               .reference = "base " + number(right),
               .usual_place = "one table of angles made for the whole model",
               .fix = "Choose base and scaling by the kind of the layer."},
              place.shown(values), change_params(values, [other](RotaryParams& params, Numbers) {
                params.rotary.base = other.base;
                params.rotary.scaling = other.scaling;
              }));
  }
}

namespace {

/// The right kind of scaling with another number in it.
void scaling_numbers(const RotaryScaling& right, const auto& add) {
  const auto other = [&](const std::string& what, double RotaryScaling::* field,
                         std::vector<double> usual) {
    add(fmt::format("the same scaling with another {}", what), "the config reader: rope_scaling",
        fmt::format("Scale with {} {}.", what, number(right.*field)),
        [field](RotaryScaling& scaling, Numbers n) { scaling.*field = n[0]; },
        {{.name = what,
          .low = 1,
          .high = 64,
          .logarithmic = true,
          .usual = without(std::move(usual), right.*field)}});
  };
  const bool llama3 = right.kind == RotaryScalingKind::kLlama3;
  const bool yarn = right.kind == RotaryScalingKind::kYarn;
  if (llama3 || yarn || right.kind == RotaryScalingKind::kDynamic) {
    other("factor", &RotaryScaling::factor, {32, 8, 4, 2, 16});
  }
  if (llama3) {
    other("low_freq_factor", &RotaryScaling::low_freq_factor, {1, 2, 4});
    other("high_freq_factor", &RotaryScaling::high_freq_factor, {4, 1, 2, 8});
  }
}

}  // namespace

void rope_scaling(const Place& place, Forms& forms) {
  const auto values = turned(place);
  if (values.empty()) return;
  const RotarySpec& spec = spec_of(place);
  const RotaryScaling& right = spec.scaling;
  const std::string reference = right.kind == RotaryScalingKind::kNone
                                    ? "no scaling"
                                    : fmt::format("scaling {}", name(right.kind));
  const auto add = [&](std::string yours, std::string usual_place, std::string fix,
                       std::function<void(RotaryScaling&, Numbers)> change,
                       std::vector<FreeNumber> numbers = {}) {
    forms.add({.yours = std::move(yours),
               .reference = reference,
               .usual_place = std::move(usual_place),
               .fix = std::move(fix)},
              place.shown(values),
              change_params(values,
                            [change = std::move(change)](RotaryParams& params, Numbers n) {
                              change(params.rotary.scaling, n);
                            }),
              std::move(numbers));
  };
  if (right.kind != RotaryScalingKind::kNone) {
    add("frequencies without scaling",
        "the config reader: rope_scaling is parsed but unused, or read under another key",
        fmt::format("Scale the frequencies ({}).", name(right.kind)),
        [](RotaryScaling& scaling, Numbers) { scaling = {}; });
  }
  if (rotary_frequencies(spec, 1).attention_factor != 1) {
    add("cosine and sine without the attention factor", "the code that makes cosine and sine",
        "Multiply cosine and sine by the attention factor.",
        [](RotaryScaling& scaling, Numbers) { scaling.attention_factor = 1.0; });
  }
  if (right.kind == RotaryScalingKind::kLongRope) {
    for (bool use_long : {true, false}) {
      add(fmt::format("always the {} list of divisors", use_long ? "long" : "short"),
          "the choice between the lists, made by the allocated context",
          "Choose the list by the length of the text.",
          [use_long](RotaryScaling& scaling, Numbers) {
            (use_long ? scaling.short_divisors : scaling.long_divisors) =
                use_long ? scaling.long_divisors : scaling.short_divisors;
          });
    }
  }
  std::vector<RotaryScaling> seen;
  for (const RotarySpec& other : others(place)) {
    if (other.scaling.kind == RotaryScalingKind::kNone || other.scaling == right) continue;
    if (other.width != spec.width && !other.scaling.short_divisors.empty()) continue;
    if (std::find(seen.begin(), seen.end(), other.scaling) != seen.end()) continue;
    seen.push_back(other.scaling);
    add("the scaling of the other kind of layers", "one scaling stored for the whole model",
        "Scale only the layers that the config names.",
        [scaling = other.scaling](RotaryScaling& changed, Numbers) { changed = scaling; });
  }
  if (right.original_context > 0 && right.kind != RotaryScalingKind::kLinear) {
    const auto context = static_cast<double>(right.original_context);
    add("another original context length",
        "a missing original_max_position_embeddings replaced by max_position_embeddings",
        fmt::format("Use the original context {}.", right.original_context),
        [](RotaryScaling& scaling, Numbers n) {
          scaling.original_context = static_cast<int64_t>(n[0]);
        },
        {{.name = "original context",
          .low = 16,
          .high = 1e7,
          .whole = true,
          .logarithmic = true,
          .usual = without({8192, 4096, 2048, 131072}, context)}});
  }
  scaling_numbers(right, add);
  const bool linear = right.kind == RotaryScalingKind::kLinear;
  add("every frequency divided by one factor",
      linear ? "the config reader: factor" : "a scaling of another kind than the config asks for",
      linear ? fmt::format("Divide the frequencies by {}.", number(right.factor))
             : "Do not divide the frequencies.",
      [](RotaryScaling& scaling, Numbers n) {
        scaling = {};
        scaling.kind = RotaryScalingKind::kLinear;
        scaling.factor = n[0];
      },
      {{.name = "factor",
        .low = 1.0 / 64,
        .high = 64,
        .logarithmic = true,
        .usual = without({8, 4, 2, 32, 16, 0.5}, linear ? right.factor : 0)}});
  frequencies_in_time(place, forms, values);
}

void rope_partial(const Place& place, Forms& forms) {
  const auto values = turned(place);
  if (values.empty()) return;
  const RotarySpec& spec = spec_of(place);
  const int64_t width = place.block()->attention.head_width;
  const std::string reference = fmt::format("{} of {} channels turn", spec.width, width);
  const std::string fix = fmt::format(
      "Turn the first {} channels of each head by p · base^(−2j/{}), pass the rest through.",
      spec.width, spec.width);
  if (spec.width < width) {
    if (width % 2 == 0) {
      forms.add({.yours = fmt::format("all {} channels turn", width),
                 .reference = reference,
                 .usual_place = "the config reader: partial_rotary_factor is ignored",
                 .fix = fix},
                place.shown(values), change_params(values, [width](RotaryParams& params, Numbers) {
                  set_width(params.rotary, width);
                }));
    }
    if (spec.width > 2) {
      // base^(-2j/E) is (base^(r/E))^(-2j/r).
      const double base =
          std::pow(spec.base, static_cast<double>(spec.width) / static_cast<double>(width));
      forms.add({.yours = fmt::format("exponents −2j/{}, over the whole head", width),
                 .reference = fmt::format("exponents −2j/{}", spec.width),
                 .usual_place = "the code that makes the frequencies",
                 .fix = fix},
                place.shown(values), change_params(values, [base](RotaryParams& params, Numbers) {
                  params.rotary.base = base;
                }));
    }
  }
  std::vector<double> usual;
  for (double part : {0.5, 0.25, 0.4, 1.0}) {
    const double each = std::floor(part * static_cast<double>(width) / 2) * 2;
    if (each >= 2 && std::find(usual.begin(), usual.end(), each) == usual.end()) {
      usual.push_back(each);
    }
  }
  usual = without(usual, static_cast<double>(spec.width));
  if (usual.empty() || width < 4) return;
  forms.add({.yours = "another number of channels turns",
             .reference = reference,
             .usual_place = "the config reader: partial_rotary_factor, rotary_pct or rotary_dim",
             .fix = fix},
            place.shown(values),
            change_params(values,
                          [](RotaryParams& params, Numbers n) {
                            set_width(params.rotary, static_cast<int64_t>(n[0]) / 2 * 2);
                          }),
            {{.name = "channels",
              .low = 2,
              .high = static_cast<double>(width),
              .whole = true,
              .usual = usual}});
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
              place.shown(values), change_params(values, std::move(change)), std::move(numbers));
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
  for (const RotarySpec& other : others(place)) {
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
