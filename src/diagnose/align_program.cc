#include "diagnose/align_program.h"

#include <algorithm>

namespace mainstem {

Program cut_behind(const Program& program, const std::vector<ValueId>& wanted) {
  StepId last = 0;
  for (const ValueId value : wanted) last = std::max(last, program.value(value).producer);
  Program cut = program;
  cut.steps.resize(static_cast<size_t>(last) + 1);
  std::erase_if(cut.sites, [&](const NamedValue& named) {
    return program.value(named.value).producer > last;
  });
  // A step's values are numbered behind those of the steps before it.
  while (cut.values.back().producer > last) cut.values.pop_back();
  cut.output = cut.steps.back().output;
  return cut;
}

Program cut_before(const Program& program, ValueId first) {
  const StepId offset = program.value(first).producer;
  Program cut = program;
  cut.steps.erase(cut.steps.begin(), cut.steps.begin() + offset);
  cut.steps.front() = {.op = Op::kInput, .output = first, .formula = "given"};
  for (Value& value : cut.values) value.producer = std::max(value.producer - offset, kNoId);
  std::erase_if(cut.sites,
                [&](const NamedValue& named) { return cut.value(named.value).producer == kNoId; });
  cut.input = first;
  return cut;
}

}  // namespace mainstem
