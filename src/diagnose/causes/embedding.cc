// The embedding.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnose/causes/norm_rows.h"
#include "diagnose/causes/passes.h"

namespace mainstem::causes {
namespace {

/// The token rows before anything is added to them, and what scales them.
struct TokenRows {
  ValueId last = kNoId;   ///< behind a projection, before a scale
  ValueId scale = kNoId;  ///< what the scale makes of it, or none
};

std::optional<TokenRows> token_rows(const Place& place) {
  const auto table = place.find(Site::kTokenEmbed);
  if (place.layer() >= 0 || !table) return std::nullopt;
  TokenRows rows{.last = *table};
  for (bool found = true; found;) {
    found = false;
    for (ValueId reader : place.readers(rows.last)) {
      const Op op = maker(place.program(), reader).op;
      if (op == Op::kScale) rows.scale = reader;
      if (op != Op::kLinear) continue;
      rows.last = reader;
      found = true;
      break;
    }
  }
  return rows;
}

/// The sum of token, position and type rows.
ValueId sum_with(const Place& place, ValueId term) {
  for (ValueId reader : place.readers(term)) {
    if (maker(place.program(), reader).op == Op::kAdd) return reader;
  }
  return kNoId;
}

Change drop_term(ValueId sum, ValueId term) {
  return
      [sum, term](Edited& edited, Numbers) { std::erase(maker(edited.program, sum).inputs, term); };
}

/// The table's own rows are scaled: its values are wrong, what is made of them is right.
void scaled_table(const Place& place, Forms& forms, const std::string& reference,
                  const std::string& fix) {
  const ValueId table = *place.find(Site::kTokenEmbed);
  const double root = std::sqrt(static_cast<double>(place.stack().width));
  const auto add = [&](std::string yours, std::function<double(Numbers)> factor,
                       std::vector<FreeNumber> numbers) {
    forms.add(
        {.yours = std::move(yours),
         .reference = reference,
         .usual_place = "the token table: scaled in its lookup, when it is loaded, or by "
                        "the converter",
         .fix = fix},
        place.shown({table}),
        [table, factor = std::move(factor)](Edited& edited, Numbers n) {
          insert_before(
              edited.program, table,
              {.op = Op::kScale, .params = ScaleParams{factor(n)}, .formula = "x · scale"});
        },
        std::move(numbers));
  };
  add("the looked up rows are times √D themselves", [root](Numbers) { return root; }, {});
  add("the looked up rows are times another number themselves", [](Numbers n) { return n[0]; },
      {{.name = "scale",
        .low = 1e-3,
        .high = 1e3,
        .logarithmic = true,
        .usual = {root, 1 / root, 0.5, 2}}});
}

bool reads_positions(const Place& place, ValueId value) {
  return place.is(value, Op::kEmbedPositions) || place.is(value, Op::kSinusoid);
}

Change change_embed(ValueId value, std::function<void(EmbedParams&, Numbers)> change) {
  return [value, change = std::move(change)](Edited& edited, Numbers n) {
    change(std::get<EmbedParams>(maker(edited.program, value).params), n);
  };
}

}  // namespace

void embed_scale(const Place& place, Forms& forms) {
  const auto rows = token_rows(place);
  if (!rows) return;
  const StackSpec& stack = place.stack();
  const double right = stack.embed_scale;
  const double root = std::sqrt(static_cast<double>(stack.width));
  const std::string usual_place = "the model's forward, behind the token table";
  const std::string reference =
      right == 1 ? "rows of the table as they are" : fmt::format("rows times {}", number(right));
  const std::string fix =
      right == 1 ? "Use the rows of the token table as they are."
                 : fmt::format("Multiply the rows of the token table by {}.", number(right));
  std::vector<double> usual{root, 1 / root, 0.5, 2};
  if (right == 1) {
    std::optional<Site> moved = place.if_named(rows->last, Site::kEmbedSum);
    if (!moved) moved = place.if_named(rows->last, Site::kEmbed);
    const auto shows =
        moved ? std::vector{place.site_id(*moved)} : place.shown(place.readers(rows->last));
    const auto insert = [last = rows->last, moved](Edited& edited, double factor) {
      insert_behind(edited.program, last,
                    {.op = Op::kScale, .params = ScaleParams{factor}, .formula = "x · scale"},
                    moved);
    };
    forms.add(
        {.yours = "rows times √D", .reference = reference, .usual_place = usual_place, .fix = fix},
        shows, [insert, root](Edited& edited, Numbers) { insert(edited, root); });
    forms.add({.yours = "rows times another number",
               .reference = reference,
               .usual_place = usual_place,
               .fix = fix},
              shows, [insert](Edited& edited, Numbers n) { insert(edited, n[0]); },
              {{.name = "scale", .low = 1e-3, .high = 1e3, .logarithmic = true, .usual = usual}});
    scaled_table(place, forms, reference, fix);
    return;
  }
  const auto add = [&](std::string yours, double factor, bool only_rounds) {
    forms.add({.yours = std::move(yours),
               .reference = reference,
               .usual_place = usual_place,
               .fix = fix,
               .only_rounds = only_rounds},
              place.shown({rows->scale}), [scale = rows->scale, factor](Edited& edited, Numbers) {
                maker(edited.program, scale).params = ScaleParams{factor};
              });
  };
  add("rows of the table as they are", 1, false);
  add("the scale is applied twice", right * right, false);
  // In bfloat16 sound programs round it.
  const double rounded = rounded_to(DType::kBF16, right);
  if (rounded != right)
    add(fmt::format("rows times {}, rounded to bf16", number(rounded)), rounded, true);
  const ValueId sum = sum_with(place, rows->scale);
  if (sum != kNoId) {
    forms.add({.yours = "the sum with the positions is scaled",
               .reference = reference + ", before anything is added",
               .usual_place = usual_place,
               .fix = fix},
              place.shown({sum}), [scale = rows->scale, sum, right](Edited& edited, Numbers) {
                maker(edited.program, scale).params = ScaleParams{1};
                insert_before(
                    edited.program, sum,
                    {.op = Op::kScale, .params = ScaleParams{right}, .formula = "x · scale"});
              });
  }
  forms.add({.yours = "rows times another number",
             .reference = reference,
             .usual_place = usual_place,
             .fix = fix},
            place.shown({rows->scale}),
            [scale = rows->scale](Edited& edited, Numbers n) {
              maker(edited.program, scale).params = ScaleParams{n[0]};
            },
            {{.name = "scale",
              .low = 1e-3,
              .high = 1e3,
              .logarithmic = true,
              .usual = without(usual, right)}});
}

void embed_position_offset(const Place& place, Forms& forms) {
  const auto positions = place.find(Site::kPosEmbed);
  if (place.layer() >= 0 || !positions || !reads_positions(place, *positions)) return;
  const int64_t right = place.stack().position_offset;
  std::vector<double> usual{1, 2, -1};
  if (right != 0) usual.insert(usual.begin(), static_cast<double>(-right));
  const std::string fix =
      right == 0 ? "Read the row of the position itself." : fmt::format("Read row p + {}.", right);
  forms.add(
      {.yours = "row p + n of the positions with another n",
       .reference = right == 0 ? "row p" : fmt::format("row p + {}", right),
       .usual_place = "the code that makes position ids: a table with unused leading rows, or "
                      "padding_idx",
       .fix = fix},
      place.shown({*positions}),
      change_embed(*positions, [](EmbedParams& params,
                                  Numbers n) { params.offset += static_cast<int64_t>(n[0]); }),
      {{.name = "shift", .low = -64, .high = 64, .whole = true, .usual = usual}});
  const auto add = [&](std::string yours, std::string usual_place, RowPosition rule) {
    forms.add(
        {.yours = std::move(yours),
         .reference = "p counts cached tokens and leaves padding out",
         .usual_place = std::move(usual_place),
         .fix = "Count positions from the mask: cumsum(mask) − 1, behind the cached tokens."},
        place.shown({*positions}),
        change_embed(*positions, [rule](EmbedParams& params, Numbers) { params.position = rule; }));
  };
  add("padding on the left counts as positions", "one arange for all rows of a padded batch",
      RowPosition::kWithPadding);
  add("positions restart at 0 in every pass", "the decode step: arange over the new tokens alone",
      RowPosition::kOfPass);
  positions_restart(place, forms, {*positions});
}

void embed_position_kind(const Place& place, Forms& forms) {
  const auto positions = place.find(Site::kPosEmbed);
  if (place.layer() >= 0 || !positions || !reads_positions(place, *positions)) return;
  const PositionKind right = place.stack().positions;
  const std::string usual_place = "the position embedding's constructor";
  const auto become = [&](std::string yours, PositionKind kind) {
    forms.add({.yours = std::move(yours),
               .reference = std::string(name(right)),
               .usual_place = usual_place,
               .fix = fmt::format("Use {} positions.", name(right))},
              place.shown({*positions}), [value = *positions, kind](Edited& edited, Numbers) {
                Step& step = maker(edited.program, value);
                step.op = Op::kSinusoid;
                step.params = EmbedParams{.kind = kind};
                step.weights.clear();
                step.formula = "sinusoid";
              });
  };
  if (right != PositionKind::kSinusoidalHalves) {
    become("all sines, then all cosines", PositionKind::kSinusoidalHalves);
  }
  if (right != PositionKind::kSinusoidalInterleaved) {
    become("sine at 2i, cosine at 2i + 1", PositionKind::kSinusoidalInterleaved);
  }
  const int64_t half = place.stack().width / 2;
  if (right != PositionKind::kLearned && half > 1) {
    const bool halves = right == PositionKind::kSinusoidalHalves;
    forms.add(
        {.yours = "frequencies that end at 1/10000: 10000^(−i/(D/2 − 1))",
         .reference = "10000^(−2i/D)",
         .usual_place = "a sinusoid in the form of tensor2tensor",
         .fix = "Use the exponents 2i/D."},
        place.shown({*positions}), [value = *positions, half, halves](Edited& edited, Numbers) {
          replace_by_custom(
              edited.program, value,
              {.note = "sinusoid that ends at 1/10000",
               .apply = [half, halves](std::span<const std::span<const double>>,
                                       std::span<double> out, int64_t position) {
                 const auto width = static_cast<int64_t>(out.size());
                 const int64_t sines = halves ? width - half : 0;
                 for (int64_t d = 0; d < width; ++d) {
                   const bool sine = halves ? d < sines : d % 2 == 0;
                   const int64_t i = halves ? (sine ? d : d - sines) : d / 2;
                   const double angle =
                       static_cast<double>(position) *
                       std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half - 1));
                   out[static_cast<size_t>(d)] = sine ? std::sin(angle) : std::cos(angle);
                 }
               }});
        });
  }
  const ValueId sum = sum_with(place, *positions);
  if (sum == kNoId) return;
  forms.add({.yours = "no positions are added",
             .reference = std::string(name(right)),
             .usual_place = "the model's forward",
             .fix = "Add the position embedding."},
            place.shown({sum}), drop_term(sum, *positions));
}

void embed_token_type(const Place& place, Forms& forms) {
  const auto types = place.find(Site::kTypeEmbed);
  if (place.layer() >= 0 || !types) return;
  const ValueId sum = sum_with(place, *types);
  if (sum != kNoId) {
    forms.add({.yours = "no token type is added",
               .reference = "row of the token's type, 0 where none are given",
               .usual_place = "the model's forward: skipped where no types are given",
               .fix = "Add row 0 of the type table where no types are given."},
              place.shown({sum}), drop_term(sum, *types));
  }
  forms.add({.yours = "the token types' rows are zeros",
             .reference = "row of the token's type, 0 where none are given",
             .usual_place = "a type table that is not loaded, or a lookup skipped where no types "
                            "are given",
             .fix = "Load the type table; read its row 0 where no types are given."},
            place.shown({*types}), [value = *types](Edited& edited, Numbers) {
              insert_before(edited.program, value,
                            {.op = Op::kScale, .params = ScaleParams{0}, .formula = "zeros"});
            });
  const int64_t rows = place.stack().token_types;
  if (rows < 2 || !place.is(*types, Op::kEmbedTypes)) return;
  forms.add({.yours = "every token has one type",
             .reference = "row of the token's type, 0 where none are given",
             .usual_place = "the arguments of the model: types handed over in another place",
             .fix = "Hand the token types over by name."},
            place.shown({*types}),
            change_embed(*types, [](EmbedParams& params,
                                    Numbers n) { params.only_row = static_cast<int64_t>(n[0]); }),
            {{.name = "type",
              .low = 0,
              .high = static_cast<double>(rows - 1),
              .whole = true,
              .usual = {1, 0}}});
}

}  // namespace mainstem::causes
