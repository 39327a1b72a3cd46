// A program that was edited may no longer fit together; the kernels trust that it does.

#include <fmt/format.h>

#include <algorithm>

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
    check_parts(step);
    check_widths(step);
  }

 private:
  /// Everything that the kernels look up without asking.
  void check_parts(const Step& step) const {
    switch (step.op) {
      case Op::kInput:
      case Op::kTokens:
        return expect_parts<std::monostate>(step, 0, 0);
      case Op::kEmbedTokens:
      case Op::kEmbedPositions:
      case Op::kEmbedTypes:
        return expect_parts<EmbedParams>(step, 0, 1);
      case Op::kSinusoid:
        return expect_parts<EmbedParams>(step, 0, 0);
      case Op::kAdd:
      case Op::kSelectRows:
        return expect_parts<std::monostate>(step, 1, 0);
      case Op::kMultiply:
        return expect_parts<std::monostate>(step, 2, 0);
      case Op::kScale:
      case Op::kSoftCap:
        return expect_parts<ScaleParams>(step, 1, 0);
      case Op::kNorm:
        return expect_parts<NormParams>(step, 1, 0);
      case Op::kLinear:
        return expect_parts<std::monostate>(step, 1, 1);
      case Op::kRotary:
        return expect_parts<RotaryParams>(step, 1, 0);
      case Op::kAttention:
        return expect_parts<AttentionParams>(step, 3, 0);
      case Op::kActivation:
        return expect_parts<ActivationParams>(step, 1, 0);
      case Op::kCustom:
        return expect_parts<CustomParams>(step, 0, 0);
    }
  }

  void check_widths(const Step& step) const {
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

  template <typename Params>
  void expect_parts(const Step& step, size_t inputs, size_t weights) const {
    const bool there = std::holds_alternative<Params>(step.params) &&
                       step.inputs.size() >= inputs && step.weights.size() >= weights &&
                       std::all_of(step.weights.begin(),
                                   step.weights.begin() + static_cast<std::ptrdiff_t>(weights),
                                   [](WeightId id) { return id != kNoId; });
    if (there) return;
    throw usage_error("step " + std::string(name(step.op)) + " of " + label(program_, step.output),
                      fmt::format("{} inputs and {} weights or more, and the op's own parameters",
                                  inputs, weights),
                      fmt::format("{} inputs, {} weights, parameters of kind {}",
                                  step.inputs.size(), step.weights.size(), step.params.index()));
  }

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
