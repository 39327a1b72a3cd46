// The last norm and the head.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnose/causes/place.h"

namespace mainstem::causes {

void head_final_norm(const Place& place, Forms& forms) {
  if (place.layer() >= 0) return;
  const auto norm = place.find(Site::kFinalNorm);
  const std::string usual_place = "the model's forward between the last block and the head";
  if (norm && !place.is(*norm, Op::kNorm)) return;
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
  if (place.layer() >= 0 || !head || !place.is(*head, Op::kLinear)) return;
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
  if (right != 0 && !place.is(*logits, Op::kSoftCap)) return;
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
  if (spec.logit_cap != 0) {
    if (!place.is(scaled, Op::kSoftCap)) return;
    scaled = maker(place.program(), scaled).inputs[0];
  }
  if (right != 1 && !place.is(scaled, Op::kScale)) return;
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
