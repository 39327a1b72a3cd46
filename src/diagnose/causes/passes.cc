// Texts that came in several passes with a cache, each taken for a text of its own.

#include "diagnose/causes/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/rotary_table.h"

namespace mainstem::causes {
namespace {

/// How the passes behind the first are cut.
struct Cut {
  std::string_view yours;
  int64_t every;  ///< rows of each later pass; 0: all the rest; −1: as many as the first
};
constexpr Cut kCuts[] = {
    {"every token behind the first pass is one", 1},
    {"each has as many tokens as the first", -1},
    {"all that follows the first is one", 0},
};

FreeNumber rows_of_first_pass() {
  return {.name = "tokens of the first pass",
          .low = 1,
          .high = 1e5,
          .whole = true,
          .logarithmic = true,
          .usual = {4, 8, 16, 512}};
}

Restarts restarts(const Cut& cut, Numbers n) {
  const auto first = static_cast<int64_t>(n[0]);
  return {.first = first, .every = cut.every < 0 ? first : cut.every};
}

/// Turns each row by the frequencies that its text had when it came.
CustomParams turned_in_time(const RotarySpec& spec, int64_t head_width, int64_t first) {
  return {.note = "turned by the frequencies of the length at the time",
          .apply = [=](std::span<const std::span<const double>> in, std::span<double> out,
                       int64_t position) {
            const RotaryFrequencies f = rotary_frequencies(spec, std::max(first, position + 1));
            const bool halves = spec.pairing == RotaryPairing::kHalfSplit;
            const int64_t pairs = spec.width / 2;
            for (size_t i = 0; i < out.size(); ++i) out[i] = in[0][i];
            for (int64_t head = 0; head < std::ssize(out); head += head_width) {
              for (int64_t j = 0; j < pairs; ++j) {
                const auto a = static_cast<size_t>(head + (halves ? j : 2 * j));
                const auto b = static_cast<size_t>(head + (halves ? j + pairs : 2 * j + 1));
                const double angle =
                    static_cast<double>(position) * f.frequency[static_cast<size_t>(j)];
                const double cosine = std::cos(angle) * f.attention_factor;
                const double sine = std::sin(angle) * f.attention_factor;
                out[a] = in[0][a] * cosine - in[0][b] * sine;
                out[b] = in[0][b] * cosine + in[0][a] * sine;
              }
            }
          }};
}

}  // namespace

void positions_restart(const Place& place, Forms& forms, const std::vector<ValueId>& values) {
  for (const Cut& cut : kCuts) {
    forms.add({.yours = fmt::format("positions restart at 0 in every pass, where {}", cut.yours),
               .reference = "p counts cached tokens",
               .usual_place = "the step that continues a cache: arange over the new tokens alone",
               .fix = "Start a pass's positions behind the cached tokens."},
              place.shown(values),
              [values, cut](Edited& edited, Numbers n) {
                edited.every_row = true;
                for (ValueId value : values) {
                  StepParams& params = maker(edited.program, value).params;
                  if (auto* rotary = std::get_if<RotaryParams>(&params)) {
                    rotary->restarts = restarts(cut, n);
                  } else {
                    std::get<EmbedParams>(params).restarts = restarts(cut, n);
                  }
                }
              },
              {rows_of_first_pass()});
  }
}

void masks_restart(const Place& place, Forms& forms, const AttentionAt& attention) {
  for (const Cut& cut : kCuts) {
    forms.add({.yours = fmt::format("the mask of a later chunk starts at the first key, where {}",
                                    cut.yours),
               .reference = "row i of a pass sees the keys up to i + cached keys",
               .usual_place = "the mask of a chunk, anchored at the top left",
               .fix = "Shift the mask by the number of cached keys."},
              place.shown({attention.pattern}),
              [mix = attention.mix, cut](Edited& edited, Numbers n) {
                std::get<AttentionParams>(maker(edited.program, mix).params).restarts =
                    restarts(cut, n);
              },
              {rows_of_first_pass()});
  }
}

namespace {

/// A dynamic base that grows before the text outgrows the original context: by the factor s, or as
/// far as the longest text that a table is made for, s times that context.
void base_grown_at_once(const Place& place, Forms& forms, const std::vector<ValueId>& values) {
  const RotarySpec& spec = *place.block()->attention.rotary;
  if (spec.scaling.kind != RotaryScalingKind::kDynamic || spec.width == 2) return;
  const double s = spec.scaling.factor;
  const auto add = [&](std::string yours, double growth) {
    const auto width = static_cast<double>(spec.width);
    const double base = spec.base * std::pow(growth, width / (width - 2));
    forms.add({.yours = std::move(yours),
               .reference = "the base grows from the original context on, by the length reached",
               .usual_place = "a table of angles that is made once, for the longest text",
               .fix = "Keep the base up to the original context, then grow it by the length."},
              place.shown(values), [values, base](Edited& edited, Numbers) {
                for (ValueId value : values) {
                  RotarySpec& rotary =
                      std::get<RotaryParams>(maker(edited.program, value).params).rotary;
                  rotary.scaling = {};
                  rotary.base = base;
                }
              });
  };
  add("the base has grown by the factor at any length", s);
  if (s != 1) add("the base has grown as for the longest text at any length", s * s - (s - 1));
}

}  // namespace

void frequencies_in_time(const Place& place, Forms& forms, const std::vector<ValueId>& values) {
  const RotarySpec& spec = *place.block()->attention.rotary;
  if (!goes_by_length(spec)) return;
  base_grown_at_once(place, forms, values);
  forms.add(
      {.yours = "each token keeps the frequencies of the length at its own time",
       .reference = "the frequencies of the whole length, for cached keys as well",
       .usual_place = "the cache: keys are stored after the rotation and the base grows later",
       .fix = "Cache keys before the rotation, or turn them again when the frequencies change."},
      place.shown(values),
      [values, spec, width = place.block()->attention.head_width](Edited& edited, Numbers n) {
        edited.every_row = true;
        for (ValueId value : values) {
          replace_by_custom(edited.program, value,
                            turned_in_time(spec, width, static_cast<int64_t>(n[0])));
        }
      },
      {rows_of_first_pass()});
}

}  // namespace mainstem::causes
