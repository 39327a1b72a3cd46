#include "diagnose/edit.h"

#include <algorithm>

namespace mainstem {

Program rebuild(const Program& like, const ModelSpec& edited) {
  return like.input != kNoId ? build_block_program(edited.stack.blocks.front())
                             : build_program(edited);
}

void replace_by_custom(Program& program, StepId id, CustomParams params) {
  Step& step = program.steps[static_cast<size_t>(id)];
  step.op = Op::kCustom;
  step.formula = params.note;
  step.params = std::move(params);
  step.weights.clear();
  drop_unread_weights(program);
}

void insert_custom_after(Program& program, ValueId value, CustomParams params) {
  const StepId producer = program.value(value).producer;
  const StepId at = producer + 1;
  Value made = program.value(value);
  made.producer = at;
  const auto made_id = static_cast<ValueId>(program.values.size());

  for (Step& step : program.steps) {
    for (ValueId& input : step.inputs) {
      if (input == value) input = made_id;
    }
  }
  for (Value& each : program.values) {
    if (each.producer >= at) ++each.producer;
  }
  program.values.push_back(std::move(made));
  Step step{.op = Op::kCustom, .inputs = {value}, .output = made_id};
  step.layer = program.step(producer).layer;
  step.formula = params.note;
  step.params = std::move(params);
  program.steps.insert(program.steps.begin() + at, std::move(step));
  if (program.output == value) program.output = made_id;
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
