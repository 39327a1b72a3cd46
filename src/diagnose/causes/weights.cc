// Matrices and biases that were loaded wrongly.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "diagnose/causes/channels.h"

namespace mainstem::causes {
namespace {

/// The matrix as the program means it, in a copy of its own.
Tensor laid_out(const WeightSource& source, int64_t rows, int64_t columns) {
  const bool wide = source.tensor.dtype() == DType::kF64;
  Tensor copy(wide ? DType::kF64 : DType::kF32, {rows, columns});
  const auto order = [&](int64_t n) {
    return source.row_order.empty() ? n : source.row_order[static_cast<size_t>(n)];
  };
  const auto fill = [&]<typename T>(T* target) {
    std::vector<T> line(static_cast<size_t>(source.tensor.columns()));
    for (int64_t i = 0; i < (source.transposed ? columns : rows); ++i) {
      read_row(source.tensor, source.transposed ? i : order(i), line.data());
      for (int64_t j = 0; j < (source.transposed ? rows : columns); ++j) {
        const int64_t at = source.transposed ? j * columns + i : i * columns + j;
        target[at] = line[static_cast<size_t>(source.transposed ? order(j) : j)];
      }
    }
  };
  if (wide) {
    fill(copy.data<double>());
  } else {
    fill(copy.data<float>());
  }
  return copy;
}

WeightSource transposed(const WeightSource& source, int64_t size) {
  WeightSource result = source;
  result.transposed = !source.transposed;
  if (source.row_order.empty()) return result;
  auto copy = std::make_shared<Tensor>(laid_out(source, size, size));
  return {.tensor = copy->view(), .transposed = true, .keep_alive = copy};
}

bool has_bias(const Place& place, ValueId value) {
  return maker(place.program(), value).weights[1] != kNoId;
}

void drop_bias(Program& program, ValueId value) { maker(program, value).weights[1] = kNoId; }

}  // namespace

void weight_transposed(const Place& place, Forms& forms) {
  for (ValueId value : place.made_by(Op::kLinear)) {
    const WeightInfo& info = place.program().weight(maker(place.program(), value).weights[0]);
    const auto source = source_of(place, value, 0);
    if (info.shape[0] != info.shape[1] || info.shape[0] < 2 || !source) continue;
    forms.add({.yours = fmt::format("x · W for {}", place.label(value)),
               .reference = "x · Wᵀ, W [out, in]",
               .usual_place = "the loader: a file that stores [in, out] (GPT-2's Conv1D), or a "
                              "transpose too many; a square matrix passes every shape check",
               .fix = fmt::format("Transpose the matrix of {} when loading.", place.label(value))},
              place.shown({value}), [source = *source, info](Edited& edited, Numbers) {
                edited.weights[info.name] = transposed(source, info.shape[0]);
              });
  }
}

void weight_rows_permuted(const Place& place, Forms& forms) {
  if (place.block() == nullptr || !place.block()->attention.rotary) return;
  const AttentionSpec& spec = place.block()->attention;
  const AttentionAt& attention = place.attentions().front();
  const int64_t width = spec.head_width;
  const bool halves = spec.rotary->pairing == RotaryPairing::kHalfSplit;
  const int64_t turned = spec.rotary->width;
  const auto to_pairs = [&](int64_t heads, int64_t head_width) {
    return pair_order(heads, head_width, std::min(turned, head_width));
  };
  struct Permuted {
    ValueId value;
    std::vector<int64_t> from;
  };
  const auto add = [&](Words words, const std::vector<Permuted>& permuted) {
    std::vector<ValueId> values;
    for (const Permuted& each : permuted) {
      if (!is_identity(each.from)) values.push_back(each.value);
    }
    words.usual_place = "the converter's permute() or the loader's inverse of it";
    forms.add(std::move(words), place.shown(values), [permuted](Edited& edited, Numbers) {
      for (const Permuted& each : permuted) {
        insert_before(edited.program, each.value,
                      custom_step(pick_channels("rows permuted", each.from)));
      }
    });
  };
  // Keys permuted with another number of heads than they are turned back with.
  if (spec.kv_heads != spec.heads && turned == width) {
    const int64_t rows = spec.kv_heads * width;
    const auto right = to_pairs(spec.kv_heads, width);
    std::vector<int64_t> counts{spec.heads / spec.kv_heads, spec.heads};
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    for (int64_t count : counts) {
      if (count == spec.kv_heads || rows % (2 * count) != 0) continue;
      const auto wrong = pair_order(count, rows / count, rows / count);
      for (bool converter : {true, false}) {
        // A half-split program holds rows that were turned back, an interleaved one permuted rows.
        const auto from =
            halves ? converter ? composed(wrong, inverse(right)) : composed(right, inverse(wrong))
            : converter ? composed(inverse(right), wrong)
                        : composed(inverse(wrong), right);
        add({.yours = fmt::format("rows of k permuted for {} heads{}", count,
                                  converter ? "" : " when turned back"),
             .reference = fmt::format("for its own {} heads", spec.kv_heads),
             .fix = fmt::format("Permute the rows of k with the {} key/value heads, those of q "
                                "with the {} query heads.",
                                spec.kv_heads, spec.heads)},
            {{attention.k, from}});
      }
    }
  }
  const auto q_pairs = to_pairs(spec.heads, width);
  const auto k_pairs = to_pairs(spec.kv_heads, width);
  for (bool toward_pairs : {halves, !halves}) {
    const Permuted q{attention.q, toward_pairs ? q_pairs : inverse(q_pairs)};
    const Permuted k{attention.k, toward_pairs ? k_pairs : inverse(k_pairs)};
    const auto text = [&](std::string_view which) {
      return Words{.yours = fmt::format("rows of {} {}", which,
                                        toward_pairs ? "permuted for pair rotation"
                                                     : "turned back to half-split order"),
                   .reference = "rows in the order that the rotation of this model expects",
                   .fix = "Leave out the permutation, or undo it."};
    };
    add(text("q and k"), {q, k});
    add(text("q"), {q});
    add(text("k"), {k});
  }
}

void bias_missing(const Place& place, Forms& forms) {
  const auto add = [&](const std::vector<ValueId>& values, const std::string& which) {
    forms.add(
        {.yours = fmt::format("no bias in {}", which),
         .reference = "W x + b",
         .usual_place = "the linear's constructor (bias=False), a loader that skips the name, "
                        "or a file that was saved without it",
         .fix = fmt::format("Load and add the bias of {}.", which)},
        place.shown(values), [values](Edited& edited, Numbers) {
          for (ValueId value : values) drop_bias(edited.program, value);
        });
  };
  std::vector<ValueId> biased;
  for (ValueId value : place.made_by(Op::kLinear)) {
    if (has_bias(place, value)) biased.push_back(value);
  }
  std::vector<ValueId> projections;
  for (Site site : {Site::kQ, Site::kK, Site::kV}) {
    const auto value = place.find(site);
    if (value && std::find(biased.begin(), biased.end(), *value) != biased.end()) {
      projections.push_back(*value);
    }
  }
  if (projections.size() > 1) add(projections, "q, k and v");
  for (ValueId value : biased) add({value}, place.label(value));
  if (biased.size() > std::max<size_t>(projections.size(), 1)) add(biased, "every linear layer");
}

}  // namespace mainstem::causes
