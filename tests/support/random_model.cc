#include "support/random_model.h"

#include <cmath>
#include <stdexcept>

namespace mainstem::testing {
namespace {

/// Norm weights spread around 1 (offset included) and all different, biases around 0, matrices
/// with rows of length about 1.
std::vector<double> random_weight(Dice& dice, const WeightInfo& info, double offset) {
  const int64_t count = element_count(info.shape);
  const bool is_norm_weight =
      info.kind == WeightKind::kVector && info.name.ends_with("norm.weight");
  const double reach = info.kind == WeightKind::kMatrix
                           ? 1.7 / std::sqrt(static_cast<double>(info.shape.back()))
                           : (info.kind == WeightKind::kTable ? 1.3 : 0.5);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    double value = dice.uniform(-reach, reach);
    if (is_norm_weight) value = dice.uniform(0.5, 1.5) * (dice.chance(0.1) ? -1 : 1) - offset;
    values.push_back(value);
  }
  return values;
}

/// Weights by name, however the norm that uses them offsets them.
std::map<std::string, double> norm_offsets(const Program& program) {
  std::map<std::string, double> offsets;
  for (const Step& step : program.steps) {
    if (step.op != Op::kNorm || step.weights[0] == kNoId) continue;
    offsets[program.weight(step.weights[0]).name] =
        std::get<NormParams>(step.params).norm.weight_offset;
  }
  return offsets;
}

Tensor stored(const Shape& shape, const std::vector<double>& values, DType dtype) {
  if (dtype == DType::kF64) return Tensor::from_f64(shape, values);
  if (dtype == DType::kF32) {
    return Tensor::from_f32(shape, std::vector<float>(values.begin(), values.end()));
  }
  Tensor tensor(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    tensor.data<uint16_t>()[i] = dtype == DType::kBF16 ? f32_to_bf16(value) : f32_to_f16(value);
  }
  return tensor;
}

TestModel make(Program program, uint64_t seed, DType dtype) {
  TestModel model;
  model.spec = program.spec;
  model.blocks = count_blocks(model.spec);
  Dice dice(seed);
  const auto offsets = norm_offsets(program);
  for (const WeightInfo& info : program.weights) {
    const auto offset = offsets.find(info.name);
    Tensor tensor = stored(
        info.shape, random_weight(dice, info, offset == offsets.end() ? 0 : offset->second), dtype);
    model.sources[info.name].tensor = tensor.view();
    model.oracle_weights[info.name] = to_f64(tensor.view());
    model.storage.emplace(info.name, std::move(tensor));
  }
  model.bound = std::make_shared<BoundProgram>(std::move(program), model.sources);
  return model;
}

}  // namespace

TestModel make_model(const ModelSpec& spec, uint64_t seed, DType dtype) {
  return make(build_program(spec), seed, dtype);
}

TestModel make_block(const BlockSpec& spec, uint64_t seed, DType dtype) {
  TestModel model = make(build_block_program(spec), seed, dtype);
  model.is_block = true;
  return model;
}

SequenceInput random_input(const TestModel& model, Dice& dice, int64_t length) {
  SequenceInput input;
  const ModelSpec& spec = model.spec;
  if (model.is_block) {
    for (int64_t i = 0; i < length * spec.stack.width; ++i) {
      // Values that float32 holds, so that both precisions start from the same.
      input.input.push_back(static_cast<double>(static_cast<float>(dice.uniform(-1.5, 1.5))));
    }
    return input;
  }
  for (int64_t t = 0; t < length; ++t) {
    input.tokens.push_back(dice.below(spec.vocab_size));
    if (spec.stack.token_types > 0) input.token_types.push_back(dice.below(spec.stack.token_types));
  }
  if (spec.encoder) {
    const int64_t encoder_length = dice.between(1, 9);
    for (int64_t t = 0; t < encoder_length; ++t) {
      input.encoder_tokens.push_back(dice.below(spec.vocab_size));
    }
  }
  return input;
}

oracle::Sequence for_oracle(const SequenceInput& input) {
  return {.tokens = input.tokens,
          .positions = input.positions,
          .token_types = input.token_types,
          .left_padding = input.left_padding,
          .encoder_tokens = input.encoder_tokens,
          .encoder_left_padding = input.encoder_left_padding,
          .input = input.input};
}

oracle::Trace run_oracle(const TestModel& model, const std::vector<SequenceInput>& inputs,
                         const oracle::Replacements& replace) {
  std::vector<oracle::Trace> traces;
  for (const SequenceInput& input : inputs) {
    traces.push_back(
        model.is_block ? oracle::run_block(model.spec.stack.blocks[0], model.oracle_weights,
                                           for_oracle(input), replace)
                       : oracle::run(model.spec, model.oracle_weights, for_oracle(input), replace));
  }
  return oracle::batch(traces);
}

TraceSink Traced::sink() {
  return [this](const TraceEvent& event) {
    const std::string name = to_string(event.site);
    if (data.contains(name)) throw std::logic_error("delivered twice: " + name);
    order.push_back(name);
    shape[name] = event.value.shape();
    data[name] = to_f64(event.value);
  };
}

Traced trace_all(const TestModel& model, const std::vector<SequenceInput>& inputs, Compute compute,
                 int threads) {
  Session session(model.bound,
                  {.compute = compute, .threads = threads, .sites = all_sites(model.program())});
  std::vector<SequenceInput> own = inputs;
  for (SequenceInput& input : own) input.sequence = session.add_sequence();
  Traced traced;
  session.forward_all(own, traced.sink());
  return traced;
}

std::vector<double> slice(const std::vector<double>& data, const std::vector<int64_t>& shape,
                          size_t axis, int64_t begin, int64_t end) {
  size_t outer = 1;
  size_t inner = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i < axis) outer *= static_cast<size_t>(shape[i]);
    if (i > axis) inner *= static_cast<size_t>(shape[i]);
  }
  const auto count = static_cast<size_t>(shape.at(axis));
  std::vector<double> result;
  for (size_t o = 0; o < outer; ++o) {
    for (int64_t at = begin; at < end; ++at) {
      for (size_t i = 0; i < inner; ++i) {
        result.push_back(data.at((o * count + static_cast<size_t>(at)) * inner + i));
      }
    }
  }
  return result;
}

bool is_square(const std::string& site) {
  return site.ends_with("scores") || site.ends_with("pattern");
}
size_t token_axis(const std::string& site) { return is_square(site) ? 2 : 1; }
bool is_encoder_site(const std::string& site) {
  return site.starts_with("encoder.") || site.ends_with(".cross_k") || site.ends_with(".cross_v");
}

}  // namespace mainstem::testing
