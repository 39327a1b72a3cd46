// Rotary positions by other frequencies.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnose/causes/passes.h"
#include "diagnose/causes/rotary_steps.h"
#include "runtime/rotary_table.h"

namespace mainstem::causes {
namespace {

/// One divisor per pair: a list grows or shrinks with the width.
void set_width(RotarySpec& spec, int64_t width) {
  spec.width = width;
  for (auto* list : {&spec.scaling.short_divisors, &spec.scaling.long_divisors}) {
    if (!list->empty()) list->resize(static_cast<size_t>(width / 2), 1.0);
  }
}

}  // namespace

void rope_base(const Place& place, Forms& forms) {
  const auto values = turned(place);
  if (values.empty() || rotary_spec(place).width == 2) return;  // base^0
  const double right = rotary_spec(place).base;
  std::vector<double> usual{1e4, 5e5, 1e6, 1e5, 1e7, 2e5};
  for (const RotarySpec& other : other_rotary_specs(place)) {
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
      change_rotary(values, [](RotaryParams& params, Numbers n) { params.rotary.base = n[0]; }),
      {{.name = "base",
        .low = 1e2,
        .high = 1e8,
        .logarithmic = true,
        .usual = without(usual, right)}});
  for (const RotarySpec& other : other_rotary_specs(place)) {
    if (other.base == right || other.scaling == rotary_spec(place).scaling) continue;
    forms.add({.yours = fmt::format("base {} and its scaling, those of the other kind of layers",
                                    number(other.base)),
               .reference = "base " + number(right),
               .usual_place = "one table of angles made for the whole model",
               .fix = "Choose base and scaling by the kind of the layer."},
              place.shown(values), change_rotary(values, [other](RotaryParams& params, Numbers) {
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
  const RotarySpec& spec = rotary_spec(place);
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
              change_rotary(values,
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
  for (const RotarySpec& other : other_rotary_specs(place)) {
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
  const RotarySpec& spec = rotary_spec(place);
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
                place.shown(values), change_rotary(values, [width](RotaryParams& params, Numbers) {
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
                place.shown(values), change_rotary(values, [base](RotaryParams& params, Numbers) {
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
            change_rotary(values,
                          [](RotaryParams& params, Numbers n) {
                            set_width(params.rotary, static_cast<int64_t>(n[0]) / 2 * 2);
                          }),
            {{.name = "channels",
              .low = 2,
              .high = static_cast<double>(width),
              .whole = true,
              .usual = usual}});
}

}  // namespace mainstem::causes
