// The MLP, and how a block's parts are added up.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnose/causes/channels.h"
#include "diagnose/causes/norm_rows.h"
#include "kernels/reference/reference.h"

namespace mainstem::causes {
namespace {

/// Sub-layers whose sum is one step: a parallel block has one for both.
struct SumAt {
  std::string label;
  ValueId sum;
  const SubLayer* part;
};

std::vector<SumAt> sums_of(const Place& place) {
  std::vector<SumAt> result;
  for (const SubLayer& part : place.sub_layers()) {
    const bool adds =
        place.is(part.sum, Op::kAdd) && maker(place.program(), part.sum).inputs.size() > 1;
    if (!adds) continue;
    if (!result.empty() && result.back().sum == part.sum) {
      result.back().label = "the block";
      continue;
    }
    result.push_back({std::string(part.label), part.sum, &part});
  }
  return result;
}

using AddChange = std::function<void(Step& add, Numbers)>;

/// One form for every sum of the block at once, then one for each.
void add_for_sums(const Place& place, Forms& forms, const Words& words, const AddChange& change,
                  const std::vector<FreeNumber>& numbers = {}) {
  const auto sums = sums_of(place);
  const auto add = [&](const std::vector<ValueId>& chosen, const std::string& which) {
    Words own = words;
    own.yours += which;
    forms.add(
        std::move(own), place.shown(chosen),
        [chosen, change](Edited& edited, Numbers n) {
          for (ValueId sum : chosen) change(maker(edited.program, sum), n);
        },
        numbers);
  };
  std::vector<ValueId> all;
  for (const SumAt& sum : sums) all.push_back(sum.sum);
  add(all, "");
  if (sums.size() == 1) return;
  for (const SumAt& sum : sums) add({sum.sum}, fmt::format(" ({} only)", sum.label));
}

/// An entry of ggml's table, which is made in float32 before it is rounded.
double gelu_of_table(double entry) {
  const auto x = static_cast<float>(entry);
  const float inner = static_cast<float>(std::sqrt(2 / M_PI)) * x * (1 + 0.044715f * x * x);
  return rounded_to(DType::kF16, static_cast<double>(0.5f * x * (1 + std::tanh(inner))));
}

constexpr Activation kActivations[] = {Activation::kGeluTanh,  Activation::kGeluErf,
                                       Activation::kSilu,      Activation::kRelu,
                                       Activation::kQuickGelu, Activation::kReluSquared};

}  // namespace

void mlp_activation(const Place& place, Forms& forms) {
  for (ValueId value : place.made_by(Op::kActivation)) {
    const Activation right =
        std::get<ActivationParams>(maker(place.program(), value).params).activation;
    const std::string reference(name(right));
    const auto words = [&](std::string yours) {
      return Words{.yours = std::move(yours),
                   .reference = reference,
                   .usual_place =
                       "the table from config names to functions: gelu and gelu_new are "
                       "two functions",
                   .fix = fmt::format("Use {}.", reference)};
    };
    const auto half_table = [&] {
      Words table = words("gelu-tanh by a half-precision table");
      table.only_rounds = true;
      forms.add(table, place.shown({value}), [value](Edited& edited, Numbers) {
        replace_by_custom(edited.program, value,
                          {.note = "f16(gelu-tanh(f16(x)))",
                           .apply = [](std::span<const std::span<const double>> in,
                                       std::span<double> out, int64_t) {
                             for (size_t i = 0; i < out.size(); ++i) {
                               out[i] = gelu_of_table(rounded_to(DType::kF16, in[0][i]));
                             }
                           }});
      });
    };
    for (Activation wrong : kActivations) {
      if (wrong == right) continue;
      forms.add(words(std::string(name(wrong))), place.shown({value}),
                [value, wrong](Edited& edited, Numbers) {
                  maker(edited.program, value).params = ActivationParams{wrong};
                });
    }
    if (right == Activation::kGeluErf || right == Activation::kGeluTanh) half_table();
    forms.add(words("no activation"), place.shown({value}), [value](Edited& edited, Numbers) {
      replace_by_custom(edited.program, value, pass_through("x, no activation"));
    });
  }
}

void mlp_gate_value_swapped(const Place& place, Forms& forms) {
  if (place.block() == nullptr) return;
  const auto gate = place.find(Site::kMlpGate), value = place.find(Site::kMlpValue);
  if (!gate || !value) return;
  const ValueId act = *place.find(Site::kMlpAct), hidden = *place.find(Site::kMlpHidden);
  forms.add({.yours = "activation(value) · gate",
             .reference = "activation(gate) · value",
             .usual_place = "the MLP's forward",
             .fix = "Put the activation on the gate."},
            place.shown({act, hidden}), [=](Edited& edited, Numbers) {
              reroute(edited.program, act, *gate, *value);
              reroute(edited.program, hidden, *value, *gate);
            });
  const bool linear = place.is(*gate, Op::kLinear) && place.is(*value, Op::kLinear);
  if (!linear) return;
  forms.add(
      {.yours = "the matrices of gate and value are exchanged",
       .reference = "each has its own",
       .usual_place = "the loader: the order of the halves of a combined matrix, or its table "
                      "of names",
       .fix = "Give gate and value the matrices of their own names."},
      place.shown({*gate, *value}), [=](Edited& edited, Numbers) {
        std::swap(maker(edited.program, *gate).weights, maker(edited.program, *value).weights);
      });
  // Rows of a combined matrix that alternate, read as halves.
  const int64_t hidden_width = place.block()->mlp.hidden;
  if (hidden_width < 2) return;
  forms.add({.yours = "gate and value are every other row of their combined matrix",
             .reference = "its halves, the gate's first",
             .usual_place = "the split of the combined matrix: [::2] instead of chunk(2)",
             .fix = "Split the combined matrix in halves."},
            place.shown({*gate, *value}), [=](Edited& edited, Numbers) {
              Program& program = edited.program;
              // Both products first, then both picks of what they give together.
              std::vector<ValueId> products;
              for (ValueId named : {*gate, *value}) {
                const int64_t first = named == *gate ? 0 : 1;
                std::vector<int64_t> order;
                for (int64_t i = 0; i < hidden_width; ++i) order.push_back(2 * i + first);
                const ValueId behind = products.empty() ? *value : *gate;
                const ValueId made = insert_step(
                    program, behind, custom_step(pick_channels("every other row", order)));
                std::swap(maker(program, named).output, maker(program, made).output);
                std::swap(program.values[static_cast<size_t>(named)].producer,
                          program.values[static_cast<size_t>(made)].producer);
                products.push_back(made);
              }
              for (ValueId named : {*gate, *value}) maker(program, named).inputs = products;
            });
}

void residual_missing(const Place& place, Forms& forms) {
  if (place.block() == nullptr) return;
  add_for_sums(place, forms,
               {.yours = "f(x) replaces the stream",
                .reference = "x + f(x)",
                .usual_place = "the block's forward",
                .fix = "Add the sub-layer's output to the stream."},
               [](Step& add, Numbers) { add.inputs.erase(add.inputs.begin()); });
  const auto drop = [&](const std::vector<SubLayer>& parts, const std::string& which) {
    std::vector<ValueId> sums;
    for (const SubLayer& part : parts) sums.push_back(part.sum);
    forms.add({.yours = "f(x) is not added" + which,
               .reference = "x + f(x)",
               .usual_place = "the block's forward: a result that is overwritten or never used",
               .fix = "Add the sub-layer's output to the stream."},
              place.shown(sums), [parts](Edited& edited, Numbers) {
                for (const SubLayer& part : parts) {
                  std::erase(maker(edited.program, part.sum).inputs, part.out);
                }
              });
  };
  std::vector<SubLayer> parts = place.sub_layers();
  const auto is_output = [all = parts](ValueId value) {
    return std::any_of(all.begin(), all.end(),
                       [&](const SubLayer& part) { return part.out == value; });
  };
  // Something must be left to add.
  std::erase_if(parts, [&](const SubLayer& part) {
    const auto& added = maker(place.program(), part.sum).inputs;
    return std::find(added.begin(), added.end(), part.out) == added.end() ||
           std::all_of(added.begin(), added.end(), is_output);
  });
  drop(parts, "");
  for (const SubLayer& part : parts) drop({part}, fmt::format(" ({} only)", part.label));
}

void residual_doubled(const Place& place, Forms& forms) {
  if (place.block() == nullptr) return;
  add_for_sums(place, forms,
               {.yours = "the stream is added several times",
                .reference = "x + f(x)",
                .usual_place = "the block's forward, or a tensor split whose every part adds the "
                               "stream before the sum",
                .fix = "Add the stream once."},
               [](Step& add, Numbers n) {
                 add.inputs.insert(add.inputs.begin(), static_cast<size_t>(n[0]) - 1,
                                   ValueId{add.inputs.front()});
               },
               {{.name = "times", .low = 2, .high = 64, .whole = true, .usual = {2, 4, 8}}});
  add_for_sums(place, forms,
               {.yours = "the sub-layer's output is added twice",
                .reference = "x + f(x)",
                .usual_place = "the block's forward: a sub-layer that adds the stream itself, "
                               "or an output that is added again",
                .fix = "Add the sub-layer's output once."},
               [](Step& add, Numbers) { add.inputs.push_back(add.inputs[1]); });
}

void residual_source(const Place& place, Forms& forms) {
  if (place.block() == nullptr) return;
  const auto add = [&](const SumAt& at, std::string yours, std::string reference, ValueId source) {
    forms.add({.yours = fmt::format("{} ({})", yours, at.label),
               .reference = std::move(reference),
               .usual_place = "the block's forward: what the variable that is added holds by then",
               .fix = "Keep the stream aside before the sub-layer and add that."},
              place.shown({at.sum}), [sum = at.sum, source](Edited& edited, Numbers) {
                maker(edited.program, sum).inputs[0] = source;
              });
  };
  for (const SumAt& at : sums_of(place)) {
    const SubLayer& part = *at.part;
    const Step& stream = maker(place.program(), part.stream);
    if (part.norm != kNoId) {
      add(at, "norm(x) + f(norm(x))", "x + f(norm(x))", part.norm);
    }
    const bool normed = place.block()->placement == NormPlacement::kPost && stream.op == Op::kNorm;
    if (normed) add(at, "the sum before its norm is added", "x, the normed sum", stream.inputs[0]);
    add(at, "f(x) + f(x)", "x + f(x)", part.out);
    const ValueId first = place.sub_layers().front().stream;
    if (part.stream != first) {
      add(at, "the block's input is added", "the stream after attention", first);
    }
  }
}

namespace {

/// The multiplier stands in the sum itself: a sub-layer's output is right, the sum is not.
void scaled_in_sum(const Place& place, Forms& forms) {
  const auto& parts = place.sub_layers();
  const auto add = [&](const std::vector<SubLayer>& chosen, const std::string& which) {
    std::vector<ValueId> sums;
    for (const SubLayer& part : chosen) sums.push_back(part.sum);
    forms.add({.yours = "the sum is x + m · f(x) with another m" + which,
               .reference = "x + f(x)",
               .usual_place = "the block's forward (residual_multiplier), the line of the sum",
               .fix = "Add the sub-layer's output as it is."},
              place.shown(sums),
              [chosen](Edited& edited, Numbers n) {
                for (const SubLayer& part : chosen) {
                  const ValueId scaled = insert_step(edited.program, part.out,
                                                     {.op = Op::kScale,
                                                      .inputs = {part.out},
                                                      .params = ScaleParams{n[0]},
                                                      .formula = "x · multiplier"});
                  reroute(edited.program, part.sum, part.out, scaled);
                }
              },
              {{.name = "multiplier",
                .low = 0.02,  // in 16 bits less is not told from nothing
                .high = 1e3,
                .logarithmic = true,
                .usual = {0.5, 2, std::sqrt(0.5), std::sqrt(2.0), 0.22, 0.25}}});
  };
  add(parts, "");
  for (const SubLayer& part : parts) add({part}, fmt::format(" ({} only)", part.label));
}

}  // namespace

void residual_scale(const Place& place, Forms& forms) {
  if (place.block() == nullptr) return;
  const double right = place.block()->residual_multiplier;
  for (const SubLayer& part : place.sub_layers()) {
    if (right != 1 && !place.is(part.out, Op::kScale)) return;
  }
  const auto add = [&](Words words, const std::function<double(Numbers)>& factor,
                       const std::vector<FreeNumber>& numbers) {
    const auto& parts = place.sub_layers();
    const auto for_parts = [&](const std::vector<SubLayer>& chosen, const std::string& which) {
      std::vector<SiteId> shows;
      for (const SubLayer& part : chosen) shows.push_back(place.site_id(part.out_site));
      Words own = words;
      own.yours += which;
      forms.add(
          std::move(own), shows,
          [chosen, factor, right](Edited& edited, Numbers n) {
            for (const SubLayer& part : chosen) {
              if (right != 1) {
                maker(edited.program, part.out).params = ScaleParams{factor(n)};
              } else {
                insert_behind(edited.program, part.out,
                              {.op = Op::kScale,
                               .params = ScaleParams{factor(n)},
                               .formula = "x · multiplier"},
                              part.out_site);
              }
            }
          },
          numbers);
    };
    for_parts(parts, "");
    for (const SubLayer& part : parts) for_parts({part}, fmt::format(" ({} only)", part.label));
  };
  const std::string usual_place = "the block's forward (residual_multiplier)";
  std::vector<double> usual{0.22, 0.5, 0.25, 2};
  if (right != 1) {
    const Words words{.yours = "x + f(x)",
                      .reference = fmt::format("x + {} · f(x)", number(right)),
                      .usual_place = usual_place,
                      .fix = fmt::format("Multiply what is added by {}.", number(right))};
    add(words, [](Numbers) { return 1.0; }, {});
    Words twice = words;
    twice.yours = fmt::format("x + {0} · {0} · f(x)", number(right));
    add(twice, [right](Numbers) { return right * right; }, {});
    usual = {1 / right, 0.5, 2};
  }
  add({.yours = "x + m · f(x) with another m",
       .reference = right == 1 ? "x + f(x)" : fmt::format("x + {} · f(x)", number(right)),
       .usual_place = usual_place,
       .fix = right == 1 ? "Add the sub-layer's output as it is."
                         : fmt::format("Multiply what is added by {}.", number(right))},
      [](Numbers n) { return n[0]; },
      {{.name = "multiplier",
        .low = 0.02,  // in 16 bits less is not told from nothing
        .high = 1e3,
        .logarithmic = true,
        .usual = without(usual, right)}});
  if (right == 1) scaled_in_sum(place, forms);
}

void block_parallel(const Place& place, Forms& forms) {
  if (place.block() == nullptr || place.block()->cross_attention ||
      place.block()->placement == NormPlacement::kPost) {
    return;
  }
  const SubLayer& attention = place.sub_layers().front();
  const SubLayer& mlp = place.sub_layers().back();
  const std::string usual_place = "the block's forward (use_parallel_residual, parallel_attn)";
  const std::vector<ValueId> readers = mlp.norm != kNoId ? std::vector{mlp.norm} : mlp.first;
  const auto share_norm = [&](const std::string& reference, const std::string& fix) {
    if (mlp.norm == kNoId || attention.norm == kNoId) return;
    forms.add({.yours = "the MLP reads attention's norm of the block's input",
               .reference = reference,
               .usual_place = usual_place,
               .fix = fix},
              place.shown({mlp.norm}),
              [to = mlp.norm, from = attention.norm](Edited& edited, Numbers) {
                replace_by_custom(edited.program, to, pass_through("attention's norm"));
                maker(edited.program, to).inputs = {from};
              });
  };
  if (place.block()->residual == ResidualForm::kSequential) {
    const std::string fix = "Feed the MLP the stream that attention was added to.";
    forms.add({.yours = "parallel: the MLP reads the block's input",
               .reference = "sequential: the MLP reads the stream after attention",
               .usual_place = usual_place,
               .fix = fix},
              place.shown(readers),
              [readers, from = mlp.stream, to = attention.stream](Edited& edited, Numbers) {
                for (ValueId reader : readers) reroute(edited.program, reader, from, to);
              });
    share_norm("sequential: the MLP reads a norm of the stream after attention", fix);
    return;
  }
  const bool shared = place.block()->residual == ResidualForm::kParallelSharedNorm;
  if (shared && attention.norm != kNoId && !place.is(attention.norm, Op::kNorm)) return;
  const std::string fix = "Feed both sub-layers the block's input.";
  forms.add({.yours = "sequential: the MLP reads the stream after attention",
             .reference = "parallel: the MLP reads the block's input",
             .usual_place = usual_place,
             .fix = fix},
            place.shown(readers), [=](Edited& edited, Numbers) {
              Program& program = edited.program;
              ValueId sum = insert_step(program, attention.out,
                                        {.op = Op::kAdd,
                                         .inputs = {attention.stream, attention.out},
                                         .formula = "stream + attn_out"});
              if (shared && attention.norm != kNoId) {
                const Step& norm = maker(program, attention.norm);
                const Step again{.op = Op::kNorm,
                                 .inputs = {sum},
                                 .weights = norm.weights,
                                 .params = norm.params,
                                 .formula = "norm"};
                sum = insert_step(program, sum, again);
              }
              const ValueId from = shared && attention.norm != kNoId ? attention.norm : mlp.stream;
              for (ValueId reader : readers) reroute(program, reader, from, sum);
            });
  share_norm("the MLP reads its own norm of the block's input", "Give the MLP its own norm.");
}

}  // namespace mainstem::causes
