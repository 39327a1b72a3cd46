// Norms of q and k.

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/causes/norm_rows.h"

namespace mainstem::causes {
namespace {

std::vector<NormAt> head_norms(const Place& place) {
  if (place.block() == nullptr || !place.block()->attention.qk_norm) return {};
  std::vector<NormAt> norms = place.norms();
  std::erase_if(norms, [](const NormAt& norm) { return !norm.of_heads; });
  return norms;
}

const QkNormSpec& spec_of(const Place& place) { return *place.block()->attention.qk_norm; }

/// `second` reads `first`; from now on it is the other way round, under the same names.
void exchange_order(Program& program, ValueId first, ValueId second) {
  for (Step& step : program.steps) {
    if (step.output == first) continue;
    std::replace(step.inputs.begin(), step.inputs.end(), second, first);
  }
  const StepId early = program.value(first).producer;
  const StepId late = program.value(second).producer;
  Step& a = program.steps[static_cast<size_t>(early)];
  Step& b = program.steps[static_cast<size_t>(late)];
  b.inputs[0] = a.inputs[0];
  a.inputs[0] = second;
  std::swap(a, b);
  program.values[static_cast<size_t>(first)].producer = late;
  program.values[static_cast<size_t>(second)].producer = early;
}

/// The steps behind two values change places; names and what reads what stay.
void exchange_steps(Program& program, ValueId first, ValueId second) {
  Step& a = maker(program, first);
  Step& b = maker(program, second);
  std::swap(a.op, b.op);
  std::swap(a.params, b.params);
  std::swap(a.weights, b.weights);
  std::swap(a.formula, b.formula);
}

}  // namespace

void qk_norm_order(const Place& place, Forms& forms) {
  const auto q_norm = place.find(Site::kQNorm), k_norm = place.find(Site::kKNorm);
  const auto q_rot = place.find(Site::kQRot), k_rot = place.find(Site::kKRot);
  if (!q_norm || !q_rot || !place.block()->attention.qk_norm) return;
  const bool after = spec_of(place).after_rotary;
  const AttentionAt& attention = place.attentions().front();
  const Words words{
      .yours = after ? "q and k are normed, then turned" : "q and k are turned, then normed",
      .reference = after ? "turned, then normed" : "normed, then turned",
      .usual_place = "attention's forward",
      .fix = after ? "Turn q and k, then norm them." : "Norm q and k, then turn them."};
  forms.add(words, place.shown({*q_norm, *k_norm, *q_rot, *k_rot, attention.scores}),
            [=](Edited& edited, Numbers) {
              exchange_order(edited.program, after ? *q_rot : *q_norm, after ? *q_norm : *q_rot);
              exchange_order(edited.program, after ? *k_rot : *k_norm, after ? *k_norm : *k_rot);
            });
  // Code that names what attention reads, whatever made it: q_rot is norm(rotate(q)).
  Words last = words;
  last.yours += ", named by where they stand";
  forms.add(last, place.shown({*q_norm, *k_norm, *q_rot, *k_rot}), [=](Edited& edited, Numbers) {
    exchange_steps(edited.program, *q_norm, *q_rot);
    exchange_steps(edited.program, *k_norm, *k_rot);
  });
}

void qk_norm_axis(const Place& place, Forms& forms) {
  for (const NormAt& norm : head_norms(place)) {
    const bool whole = spec_of(place).scope == QkNormScope::kWhole;
    const Words words{.yours = whole ? "each head is normed on its own" : "all heads are one row",
                      .reference = whole ? "normed over the whole projection" : "normed per head",
                      .usual_place = "where the heads are split: before or after the norm",
                      .fix = whole ? "Norm q and k before the heads are split."
                                   : "Split the heads, then norm each of them."};
    std::vector<ValueId> outputs;
    for (ValueId output : norm.outputs) {
      if (place.program().value(output).dims[2].size > 1) outputs.push_back(output);
    }
    if (!whole && !spec_of(place).weight_per_head) {
      // One weight for every head: no NormParams say so of a whole row.
      forms.add(words, place.shown(outputs), [outputs](Edited& edited, Numbers numbers) {
        for (ValueId output : outputs) {
          const int64_t width = edited.program.value(output).width;
          change_norm_rows({output}, "norm over all heads",
                           [width](NormRow& row) { row.group = width; })(edited, numbers);
        }
      });
      continue;
    }
    const int64_t head_width = place.block()->attention.head_width;
    forms.add(words, place.shown(outputs), [=](Edited& edited, Numbers) {
      for (ValueId output : outputs) {
        auto& params = std::get<NormParams>(maker(edited.program, output).params);
        params.group = whole ? head_width : edited.program.value(output).width;
        params.weight_per_group = whole;
      }
    });
  }
}

void qk_norm_missing(const Place& place, Forms& forms) {
  const auto add = [&](const std::vector<ValueId>& outputs, const std::string& which) {
    forms.add({.yours = which + " not normed",
               .reference = "q and k are normed",
               .usual_place = "attention's forward: the norms are built but never called",
               .fix = "Norm q and k."},
              place.shown(outputs), [outputs](Edited& edited, Numbers) {
                for (ValueId output : outputs) {
                  replace_by_custom(edited.program, output, pass_through("x, no norm"));
                }
              });
  };
  for (const NormAt& norm : head_norms(place)) {
    add(norm.outputs, "q and k are");
    add({norm.outputs[0]}, "q is");
    add({norm.outputs[1]}, "k is");
  }
}

}  // namespace mainstem::causes
