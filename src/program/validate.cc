// A program that was edited may no longer fit together; the kernels trust that it does.

#include "mainstem/error.h"
#include "mainstem/program.h"

namespace mainstem {
namespace {

std::string label(const Program& program, ValueId id) {
  for (const NamedValue& named : program.sites) {
    if (named.value == id) return to_string(named.site);
  }
  return "value " + std::to_string(id);
}

class Validator {
 public:
  explicit Validator(const Program& program) : program_(program) {}

  void check(const Step& step) const {
    switch (step.op) {
      case Op::kAdd:
      case Op::kMultiply:
      case Op::kScale:
      case Op::kSoftCap:
      case Op::kActivation:
      case Op::kSelectRows:
      case Op::kNorm:
        for (ValueId input : step.inputs) expect(step, input, width(step.output));
        return;
      case Op::kRotary: {
        const auto& params = std::get<RotaryParams>(step.params);
        expect(step, step.inputs[0], params.heads * params.head_width);
        expect(step, step.output, params.heads * params.head_width);
        return;
      }
      case Op::kLinear: {
        const WeightInfo& weight = program_.weight(step.weights[0]);
        expect(step, step.inputs[0], weight.shape[1]);
        expect(step, step.output, weight.shape[0]);
        return;
      }
      case Op::kAttention: {
        const auto& params = std::get<AttentionParams>(step.params);
        expect(step, step.inputs[0], params.heads * params.head_width);
        expect(step, step.inputs[1], params.kv_heads * params.head_width);
        expect(step, step.inputs[2], params.kv_heads * params.head_width);
        expect(step, step.output, params.heads * params.head_width);
        return;
      }
      case Op::kEmbedTokens:
      case Op::kEmbedPositions:
      case Op::kEmbedTypes:
        expect(step, step.output, program_.weight(step.weights[0]).shape[1]);
        return;
      case Op::kInput:
      case Op::kTokens:
      case Op::kSinusoid:
      case Op::kCustom:  // takes rows of any width
        return;
    }
  }

 private:
  int64_t width(ValueId id) const { return program_.value(id).width; }

  void expect(const Step& step, ValueId id, int64_t wanted) const {
    if (width(id) == wanted) return;
    throw usage_error("width of " + label(program_, id), std::to_string(wanted),
                      std::to_string(width(id)))
        .in("step " + std::string(name(step.op)) + " of " + label(program_, step.output));
  }

  const Program& program_;
};

}  // namespace

void validate(const Program& program) {
  const Validator validator(program);
  for (const Step& step : program.steps) validator.check(step);
}

}  // namespace mainstem
