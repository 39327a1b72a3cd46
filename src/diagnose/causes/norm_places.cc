// Norms that stand elsewhere, or read another's weights.

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/causes/place.h"

namespace mainstem::causes {
namespace {

struct NormStep {
  StepParams params;
  std::vector<WeightId> weights;
};

NormStep norm_of(const Program& program, ValueId output) {
  const Step& step = maker(program, output);
  return {step.params, step.weights};
}

Step step_of(const NormStep& norm) {
  return {.op = Op::kNorm, .weights = norm.weights, .params = norm.params, .formula = "norm"};
}

/// The norm steps of one sub-layer that a placement moves.
struct Moved {
  SubLayer part;
  ValueId pre = kNoId;  ///< before the sub-layer
  ValueId out = kNoId;  ///< on its output
  ValueId sum = kNoId;  ///< on the sum
};

std::vector<Moved> moved_parts(const Place& place) {
  std::vector<Moved> result;
  const NormPlacement placement = place.block()->placement;
  for (const SubLayer& part : place.sub_layers()) {
    Moved moved{.part = part, .pre = part.norm};
    switch (placement) {
      case NormPlacement::kPre:
        if (place.is(moved.pre, Op::kNorm)) result.push_back(std::move(moved));
        break;
      case NormPlacement::kPost:
        moved.sum = part.result;
        if (place.is(moved.sum, Op::kNorm)) result.push_back(std::move(moved));
        break;
      case NormPlacement::kSandwich:
      case NormPlacement::kOutputOnly:
        // A multiplier may stand behind it.
        moved.out = part.out;
        while (place.is(moved.out, Op::kScale)) {
          moved.out = maker(place.program(), moved.out).inputs[0];
        }
        if (place.is(moved.out, Op::kNorm)) result.push_back(std::move(moved));
        break;
    }
  }
  return result;
}

using PartChange = std::function<void(Edited&, const Moved&)>;
using PartShows = std::function<std::vector<SiteId>(const Moved&)>;

/// One form for all sub-layers, then one for each.
void add_for_parts(const Place& place, Forms& forms, const Words& words, const PartShows& shows,
                   const PartChange& change) {
  const std::vector<Moved> parts = moved_parts(place);
  const auto add = [&](const std::vector<Moved>& chosen, const std::string& which) {
    std::vector<SiteId> sites;
    for (const Moved& part : chosen) {
      const auto own = shows(part);
      sites.insert(sites.end(), own.begin(), own.end());
    }
    Words own = words;
    own.yours += which;
    forms.add(std::move(own), std::move(sites), [chosen, change](Edited& edited, Numbers) {
      for (const Moved& part : chosen) change(edited, part);
    });
  };
  // Where a mistake took one of the norms away, the others may still move.
  if (parts.size() == place.sub_layers().size()) add(parts, "");
  for (const Moved& part : parts) add({part}, fmt::format(" ({} only)", part.part.label));
}

std::vector<SiteId> together(std::vector<SiteId> a, const std::vector<SiteId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr const char* kPlace = "the block's forward";

void from_pre(const Place& place, Forms& forms) {
  const Words words{.yours = "norm(x + f(x))",
                    .reference = "x + f(norm(x))",
                    .usual_place = kPlace,
                    .fix = "Norm the sub-layer's input and leave the sum as it is."};
  add_for_parts(
      place, forms, words,
      [&](const Moved& part) { return place.shown({part.pre, part.part.result}); },
      [](Edited& edited, const Moved& part) {
        const NormStep moved = norm_of(edited.program, part.pre);
        replace_by_custom(edited.program, part.pre, pass_through("x, no norm here"));
        insert_before(edited.program, part.part.result, step_of(moved));
      });
  // The same, in a dump where the moved norm goes on under its name.
  Words named = words;
  named.yours += ", its output still called " + std::string(name(Site::kAttnNorm));
  add_for_parts(
      place, forms, named,
      [&](const Moved& part) {
        std::vector<ValueId> changed = part.part.first;
        changed.push_back(part.pre);
        changed.push_back(part.part.result);
        return place.shown(changed);
      },
      [](Edited& edited, const Moved& part) {
        const NormStep moved = norm_of(edited.program, part.pre);
        for (ValueId first : part.part.first) {
          reroute(edited.program, first, part.pre, part.part.stream);
        }
        insert_before(edited.program, part.part.result, step_of(moved));
        for (NamedValue& each : edited.program.sites) {
          if (each.value == part.pre) each.value = part.part.result;
        }
      });
  add_for_parts(
      place, forms,
      {.yours = "x + norm(f(x))",
       .reference = "x + f(norm(x))",
       .usual_place = kPlace,
       .fix = "Norm the sub-layer's input, not its output."},
      [&](const Moved& part) {
        return together(place.shown({part.pre}), {place.site_id(part.part.out_site)});
      },
      [](Edited& edited, const Moved& part) {
        const NormStep moved = norm_of(edited.program, part.pre);
        replace_by_custom(edited.program, part.pre, pass_through("x, no norm here"));
        insert_behind(edited.program, part.part.out, step_of(moved), part.part.out_site);
      });
}

/// The products that read the stream read a norm of it.
void norm_the_input(Edited& edited, const Moved& part, const NormStep& norm) {
  Step step = step_of(norm);
  step.inputs = {part.part.stream};
  const int layer = maker(edited.program, part.part.first[0]).layer;
  const ValueId normed = insert_step(edited.program, part.part.stream, std::move(step));
  maker(edited.program, normed).layer = layer;
  for (ValueId first : part.part.first) {
    reroute(edited.program, first, part.part.stream, normed);
  }
}

void from_post(const Place& place, Forms& forms) {
  add_for_parts(
      place, forms,
      {.yours = "x + f(norm(x))",
       .reference = "norm(x + f(x))",
       .usual_place = "the block's forward (norm_first, normalize_before)",
       .fix = "Norm the sum, and feed the sub-layer the stream as it is."},
      [&](const Moved& part) {
        return together(place.shown(part.part.first), place.shown({part.sum}));
      },
      [](Edited& edited, const Moved& part) {
        const NormStep norm = norm_of(edited.program, part.sum);
        replace_by_custom(edited.program, part.sum, pass_through("x, no norm here"));
        norm_the_input(edited, part, norm);
      });
  add_for_parts(
      place, forms,
      {.yours = "x + norm(f(x))",
       .reference = "norm(x + f(x))",
       .usual_place = kPlace,
       .fix = "Add first, then norm the sum."},
      [&](const Moved& part) {
        return together({place.site_id(part.part.out_site)}, place.shown({part.sum}));
      },
      [](Edited& edited, const Moved& part) {
        const NormStep norm = norm_of(edited.program, part.sum);
        replace_by_custom(edited.program, part.sum, pass_through("x, no norm here"));
        insert_behind(edited.program, part.part.out, step_of(norm), part.part.out_site);
      });
}

void from_output(const Place& place, Forms& forms) {
  add_for_parts(
      place, forms,
      {.yours = "norm(x + f(·)): the output's norm is applied to the sum",
       .reference = "x + norm(f(·))",
       .usual_place = kPlace,
       .fix = "Norm the sub-layer's output before it is added."},
      [&](const Moved& part) { return place.shown({part.out, part.part.result}); },
      [](Edited& edited, const Moved& part) {
        const NormStep norm = norm_of(edited.program, part.out);
        replace_by_custom(edited.program, part.out, pass_through("x, no norm here"));
        insert_before(edited.program, part.part.result, step_of(norm));
      });
  if (place.block()->placement != NormPlacement::kOutputOnly) return;
  add_for_parts(
      place, forms,
      {.yours = "x + f(norm(x))",
       .reference = "x + norm(f(x))",
       .usual_place = kPlace,
       .fix = "Norm the sub-layer's output, not its input."},
      [&](const Moved& part) {
        return together(place.shown(part.part.first), place.shown({part.out}));
      },
      [](Edited& edited, const Moved& part) {
        const NormStep norm = norm_of(edited.program, part.out);
        replace_by_custom(edited.program, part.out, pass_through("x, no norm here"));
        norm_the_input(edited, part, norm);
      });
}

}  // namespace

void norm_placement(const Place& place, Forms& forms) {
  if (place.block() == nullptr || place.block()->residual != ResidualForm::kSequential) return;
  switch (place.block()->placement) {
    case NormPlacement::kPre:
      return from_pre(place, forms);
    case NormPlacement::kPost:
      return from_post(place, forms);
    case NormPlacement::kSandwich:
    case NormPlacement::kOutputOnly:
      return from_output(place, forms);
  }
}

void norm_weight_swapped(const Place& place, Forms& forms) {
  struct Norm {
    std::string label;
    ValueId output;
    bool here;
  };
  std::vector<Norm> norms;
  const Program& program = place.program();
  for (const NormAt& norm : place.norms()) {
    for (ValueId output : norm.outputs) {
      if (maker(program, output).weights[0] == kNoId) continue;
      norms.push_back({norm.of_heads ? place.label(output) : norm.label, output, true});
    }
  }
  const size_t own = norms.size();
  // The stack's last norm lies next to the last block's in a file.
  if (place.layer() >= 0) {
    const auto last = program.find_value({Site::kFinalNorm, -1, place.site_id(Site::kQ).stack});
    if (last && maker(program, *last).op == Op::kNorm &&
        maker(program, *last).weights[0] != kNoId) {
      norms.push_back({"final_norm", *last, false});
    }
  }
  const auto fits = [&](const Norm& a, const Norm& b) {
    const auto shape = [&](const Norm& norm) {
      return program.weight(maker(program, norm.output).weights[0]).shape;
    };
    return shape(a) == shape(b);
  };
  const auto exchange = [](std::vector<WeightId>& to, const std::vector<WeightId>& from) {
    to[0] = from[0];
    if (to[1] != kNoId && from[1] != kNoId) to[1] = from[1];
  };
  const std::string usual = "the loader's table of names: two norms of the block are confused";
  for (size_t i = 0; i < own; ++i) {
    for (size_t j = i + 1; j < own; ++j) {
      if (!fits(norms[i], norms[j])) continue;
      forms.add({.yours = fmt::format("{} and {} have exchanged their weights", norms[i].label,
                                      norms[j].label),
                 .reference = "each norm reads its own",
                 .usual_place = usual,
                 .fix = fmt::format("Give {} and {} the weights of their own names.",
                                    norms[i].label, norms[j].label)},
                place.shown({norms[i].output, norms[j].output}),
                [a = norms[i].output, b = norms[j].output, exchange](Edited& edited, Numbers) {
                  const auto first = maker(edited.program, a).weights;
                  const auto second = maker(edited.program, b).weights;
                  exchange(maker(edited.program, a).weights, second);
                  exchange(maker(edited.program, b).weights, first);
                });
    }
  }
  for (size_t i = 0; i < own; ++i) {
    for (size_t j = 0; j < norms.size(); ++j) {
      if (i == j || !fits(norms[i], norms[j])) continue;
      forms.add({.yours = fmt::format("{} reads the weights of {}", norms[i].label, norms[j].label),
                 .reference = fmt::format("{} reads its own", norms[i].label),
                 .usual_place = usual,
                 .fix = fmt::format("Give {} the weights of its own name.", norms[i].label)},
                place.shown({norms[i].output}),
                [a = norms[i].output, b = norms[j].output, exchange](Edited& edited, Numbers) {
                  exchange(maker(edited.program, a).weights, maker(edited.program, b).weights);
                });
    }
    forms.add({.yours = norms[i].label + " keeps the weights it was created with (all 1)",
               .reference = norms[i].label + " reads its own",
               .usual_place = "the loader: the name is skipped and nobody complains",
               .fix = fmt::format("Load the weight of {}.", norms[i].label)},
              place.shown({norms[i].output}), [a = norms[i].output](Edited& edited, Numbers) {
                Step& step = maker(edited.program, a);
                step.weights[0] = kNoId;
                std::get<NormParams>(step.params).norm.weight = false;
              });
  }
}

}  // namespace mainstem::causes
