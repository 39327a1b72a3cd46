// The embedding and the head.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnose/causes/norm_rows.h"

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
    return;
  }
  const auto add = [&](std::string yours, double factor) {
    forms.add(
        {.yours = std::move(yours), .reference = reference, .usual_place = usual_place, .fix = fix},
        place.shown({rows->scale}), [scale = rows->scale, factor](Edited& edited, Numbers) {
          maker(edited.program, scale).params = ScaleParams{factor};
        });
  };
  add("rows of the table as they are", 1);
  add("the scale is applied twice", right * right);
  const double rounded = rounded_to(DType::kBF16, right);
  if (rounded != right)
    add(fmt::format("rows times {}, rounded to bf16", number(rounded)), rounded);
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
  if (place.layer() >= 0 || !positions) return;
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
}

void embed_position_kind(const Place& place, Forms& forms) {
  const auto positions = place.find(Site::kPosEmbed);
  if (place.layer() >= 0 || !positions) return;
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
  const int64_t rows = place.stack().token_types;
  if (rows < 2) return;
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

void head_final_norm(const Place& place, Forms& forms) {
  if (place.layer() >= 0) return;
  const auto norm = place.find(Site::kFinalNorm);
  const std::string usual_place = "the model's forward between the last block and the head";
  if (norm) {
    forms.add({.yours = "the head reads the stream as it is",
               .reference = "the head reads its norm",
               .usual_place = usual_place,
               .fix = "Norm the stream before the head."},
              place.shown({*norm}), [value = *norm](Edited& edited, Numbers) {
                replace_by_custom(edited.program, value, pass_through("x, no norm"));
              });
    forms.add(
        {.yours = "the last norm is applied twice",
         .reference = "once",
         .usual_place = "a head that reads the last hidden state, which is normed already",
         .fix = "Norm the stream once."},
        place.shown({*norm}), [value = *norm](Edited& edited, Numbers) {
          const Step step = maker(edited.program, value);
          insert_before(
              edited.program, value,
              {.op = Op::kNorm, .weights = step.weights, .params = step.params, .formula = "norm"});
        });
    return;
  }
  const auto selected = place.made_by(Op::kSelectRows);
  if (selected.empty() || place.program().spec.head.kind == HeadKind::kNone) return;
  NormSpec spec = place.stack().blocks.empty() ? NormSpec{} : place.stack().blocks.back().norm;
  spec.weight = spec.bias = false;
  forms.add({.yours = "a norm before the head",
             .reference = "the head reads the stream as it is",
             .usual_place = "a stack that adds a last norm of its own",
             .fix = "Leave the last norm out: the blocks norm their sums."},
            place.shown(place.readers(selected[0])),
            [value = selected[0], spec, width = place.stack().width](Edited& edited, Numbers) {
              insert_behind(edited.program, value,
                            {.op = Op::kNorm,
                             .weights = {kNoId, kNoId},
                             .params = NormParams{.norm = spec, .group = width},
                             .formula = "norm"});
            });
}

void head_tied(const Place& place, Forms& forms) {
  const auto head = place.find(Site::kHead);
  if (place.layer() >= 0 || !head) return;
  const Program& program = place.program();
  const WeightId own = maker(program, *head).weights[0];
  const auto& shape = program.weight(own).shape;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const WeightInfo& other = program.weights[i];
    if (static_cast<WeightId>(i) == own || other.shape != shape) continue;
    if (other.kind != WeightKind::kTable && !other.name.ends_with("head.weight")) continue;
    const auto mine = place.weights().find(program.weight(own).name);
    const auto theirs = place.weights().find(other.name);
    if (mine != place.weights().end() && theirs != place.weights().end() &&
        mine->second.tensor.data() == theirs->second.tensor.data()) {
      continue;  // one table under two names
    }
    const bool tied = program.spec.head.tied;
    forms.add({.yours = "the head's matrix is " + other.name,
               .reference = program.weight(own).name,
               .usual_place = "the flag tie_word_embeddings",
               .fix = tied ? "Use the token table for the head."
                           : "Load the head's own matrix; the config says it is not tied."},
              place.shown({*head}),
              [value = *head, id = static_cast<WeightId>(i)](Edited& edited, Numbers) {
                maker(edited.program, value).weights[0] = id;
              });
  }
}

void head_softcap(const Place& place, Forms& forms) {
  const auto logits = place.find(Site::kLogits), head = place.find(Site::kHead);
  if (place.layer() >= 0 || !logits || !head) return;
  const double right = place.program().spec.head.logit_cap;
  const std::string usual_place = "the model's forward behind the head (final_logit_softcapping)";
  const std::string reference =
      right == 0 ? "no cap" : fmt::format("{0} · tanh(x / {0})", number(right));
  const std::string fix = right == 0 ? "Leave the logits as they are."
                                     : fmt::format("Cap the logits with {}.", number(right));
  const std::vector<SiteId> shows{place.site_id(Site::kLogits)};
  if (right != 0) {
    forms.add({.yours = "logits are not capped",
               .reference = reference,
               .usual_place = usual_place,
               .fix = fix},
              shows, [value = *logits](Edited& edited, Numbers) {
                replace_by_custom(edited.program, value, pass_through("x, not capped"));
              });
  }
  forms.add(
      {.yours = right == 0 ? "logits are capped" : "another cap",
       .reference = reference,
       .usual_place = usual_place,
       .fix = fix},
      shows,
      [value = *logits, right](Edited& edited, Numbers n) {
        if (right != 0) {
          maker(edited.program, value).params = ScaleParams{n[0]};
          return;
        }
        insert_behind(
            edited.program, value,
            {.op = Op::kSoftCap, .params = ScaleParams{n[0]}, .formula = "cap · tanh(x / cap)"},
            Site::kLogits);
      },
      {{.name = "cap",
        .low = 0.1,
        .high = 1e3,
        .logarithmic = true,
        .usual = without({30, 50}, right)}});
}

void head_scale(const Place& place, Forms& forms) {
  const auto logits = place.find(Site::kLogits), head = place.find(Site::kHead);
  if (place.layer() >= 0 || !logits || !head) return;
  const HeadSpec& spec = place.program().spec.head;
  const double right = spec.logit_scale;
  const double root = std::sqrt(static_cast<double>(place.stack().width));
  const std::vector<SiteId> shows{place.site_id(Site::kLogits)};
  const std::string reference =
      right == 1 ? "logits as they are" : fmt::format("logits times {}", number(right));
  const std::string fix = right == 1 ? "Leave the logits as they are."
                                     : fmt::format("Multiply the logits by {}.", number(right));
  // Before a cap, where there is one.
  ValueId scaled = *logits;
  if (spec.logit_cap != 0) scaled = maker(place.program(), scaled).inputs[0];
  const auto set = [right, scaled, capped = spec.logit_cap != 0](Edited& edited, double factor) {
    if (right != 1) {
      maker(edited.program, scaled).params = ScaleParams{factor};
      return;
    }
    insert_behind(edited.program, scaled,
                  {.op = Op::kScale, .params = ScaleParams{factor}, .formula = "x · scale"},
                  capped ? std::nullopt : std::optional(Site::kLogits));
  };
  const auto words = [&](std::string yours) {
    return Words{.yours = std::move(yours),
                 .reference = reference,
                 .usual_place = "the model's forward behind the head (logit_scale, logits_scaling)",
                 .fix = fix};
  };
  std::vector<double> usual{1 / root, root, 0.0625, 2};
  if (right != 1) {
    forms.add(words("logits as they are"), shows,
              [set](Edited& edited, Numbers) { set(edited, 1); });
    forms.add(words(fmt::format("logits times {}: divided instead of multiplied, or the reverse",
                                number(1 / right))),
              shows, [set, right](Edited& edited, Numbers) { set(edited, 1 / right); });
    usual.insert(usual.begin(), right * right);
  }
  forms.add(words("logits times another number"), shows,
            [set](Edited& edited, Numbers n) { set(edited, n[0]); },
            {{.name = "scale",
              .low = 1e-4,
              .high = 1e4,
              .logarithmic = true,
              .usual = without(usual, right)}});
}

}  // namespace mainstem::causes
