#include "diagnose/edit.h"

#include <algorithm>

namespace mainstem {

Program rebuild(const Program& like, const ModelSpec& edited) {
  return like.input != kNoId ? build_block_program(edited.stack.blocks.front())
                             : build_program(edited);
}

Step& maker(Program& program, ValueId value) {
  return program.steps[static_cast<size_t>(program.value(value).producer)];
}

const Step& maker(const Program& program, ValueId value) {
  return program.step(program.value(value).producer);
}

void replace_by_custom(Program& program, ValueId value, CustomParams params) {
  Step& step = maker(program, value);
  step.op = Op::kCustom;
  step.formula = params.note;
  step.params = std::move(params);
  step.weights.clear();
}

Step custom_step(CustomParams params) {
  Step step{.op = Op::kCustom, .formula = params.note};
  step.params = std::move(params);
  return step;
}

CustomParams pass_through(std::string note) {
  return {.note = std::move(note),
          .apply = [](std::span<const std::span<const double>> in, std::span<double> out, int64_t) {
            std::copy(in[0].begin(), in[0].end(), out.begin());
          }};
}

ValueId insert_step(Program& program, ValueId behind, Step step) {
  const StepId producer = program.value(behind).producer;
  const StepId at = producer + 1;
  for (Value& each : program.values) {
    if (each.producer >= at) ++each.producer;
  }
  Value made = program.value(behind);
  made.producer = at;
  program.values.push_back(std::move(made));
  step.output = static_cast<ValueId>(program.values.size() - 1);
  step.layer = program.step(producer).layer;
  program.steps.insert(program.steps.begin() + at, std::move(step));
  return static_cast<ValueId>(program.values.size() - 1);
}

void insert_before(Program& program, ValueId value, Step step) {
  const ValueId earlier = insert_step(program, value, std::move(step));
  const StepId first = program.value(value).producer;
  // The new value and the old one change places.
  Step& made_it = program.steps[static_cast<size_t>(first)];
  Step& makes_it = program.steps[static_cast<size_t>(first) + 1];
  made_it.output = earlier;
  makes_it.output = value;
  makes_it.inputs.insert(makes_it.inputs.begin(), earlier);
  program.values[static_cast<size_t>(earlier)].producer = first;
  program.values[static_cast<size_t>(value)].producer = first + 1;
}

ValueId insert_behind(Program& program, ValueId value, Step step, std::optional<Site> moved) {
  const ValueId later = insert_step(program, value, std::move(step));
  for (Step& each : program.steps) {
    if (each.output == later) continue;
    std::replace(each.inputs.begin(), each.inputs.end(), value, later);
  }
  Step& inserted = maker(program, later);
  inserted.inputs.insert(inserted.inputs.begin(), value);
  if (program.output == value) program.output = later;
  bool from_here = false;
  for (NamedValue& named : program.sites) {
    if (named.value != value || !moved) continue;
    from_here |= named.site.site == *moved;
    if (from_here) named.value = later;
  }
  return later;
}

void reroute(Program& program, ValueId reader, ValueId from, ValueId to) {
  auto& inputs = maker(program, reader).inputs;
  std::replace(inputs.begin(), inputs.end(), from, to);
}

void drop_unread_weights(Program& program) {
  std::vector<bool> read(program.weights.size());
  for (const Step& step : program.steps) {
    for (WeightId id : step.weights) {
      if (id != kNoId) read[static_cast<size_t>(id)] = true;
    }
  }
  std::vector<WeightId> renumbered(program.weights.size(), kNoId);
  std::vector<WeightInfo> kept;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    if (!read[i]) continue;
    renumbered[i] = static_cast<WeightId>(kept.size());
    kept.push_back(std::move(program.weights[i]));
  }
  program.weights = std::move(kept);
  for (Step& step : program.steps) {
    for (WeightId& id : step.weights) {
      if (id != kNoId) id = renumbered[static_cast<size_t>(id)];
    }
  }
}

}  // namespace mainstem
