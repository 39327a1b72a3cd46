#include "program/builder.h"

#include <fmt/format.h>

#include <utility>

namespace mainstem {
namespace {

int64_t product(const std::vector<Dim>& dims) {
  int64_t result = 1;
  for (const Dim& dim : dims) result *= dim.size;
  return result;
}

std::string activation_formula(Activation kind, const std::string& x) {
  switch (kind) {
    case Activation::kRelu:
      return fmt::format("max({}, 0)", x);
    case Activation::kReluSquared:
      return fmt::format("max({}, 0)²", x);
    case Activation::kGeluErf:
      return fmt::format("{0}/2 · (1 + erf({0}/√2))", x);
    case Activation::kGeluTanh:
      return fmt::format("{0}/2 · (1 + tanh(√(2/π) · ({0} + 0.044715 · {0}³)))", x);
    case Activation::kSilu:
      return fmt::format("{0} · sigmoid({0})", x);
    case Activation::kQuickGelu:
      return fmt::format("{0} · sigmoid(1.702 · {0})", x);
  }
  return x;
}

std::string norm_formula(const NormSpec& spec, const std::string& x) {
  std::string text = spec.kind == NormKind::kRms
                         ? fmt::format("{0} / √(mean({0}²) + {1:g})", x, spec.eps)
                         : fmt::format("({0} − mean({0})) / √(var({0}) + {1:g})", x, spec.eps);
  if (spec.weight) {
    text += spec.weight_offset == 0 ? " · γ" : fmt::format(" · ({:g} + γ)", spec.weight_offset);
  }
  if (spec.bias) text += " + β";
  return text;
}

}  // namespace

void Builder::enter_stack(Stack stack, int64_t width) {
  stack_ = stack;
  width_ = width;
  rows_ = stack == Stack::kEncoder ? Rows::kEncoder : Rows::kMain;
}

std::string Builder::full_name(const std::string& own_name) const {
  std::string text;
  if (stack_ == Stack::kEncoder) text = "encoder.";
  if (stack_ == Stack::kDecoder) text = "decoder.";
  if (layer_ >= 0) text += "blocks." + std::to_string(layer_) + ".";
  return text + own_name;
}

WeightId Builder::weight(const std::string& own_name, std::vector<int64_t> shape, WeightKind kind) {
  program_.weights.push_back({full_name(own_name), std::move(shape), kind});
  return static_cast<WeightId>(program_.weights.size() - 1);
}

ValueId Builder::emit(Step step, std::vector<Dim> tail_dims) {
  Value value;
  value.dims = {{'B', -1}, {'T', -1}};
  value.width = product(tail_dims);
  value.dims.insert(value.dims.end(), tail_dims.begin(), tail_dims.end());
  // A row-wise step has the rows of what it reads; attention those of its queries.
  value.rows = rows_;
  if (!step.inputs.empty() && step.op != Op::kSelectRows) {
    value.rows = program_.value(step.inputs.front()).rows;
  }
  value.producer = static_cast<StepId>(program_.steps.size());
  program_.values.push_back(std::move(value));
  step.output = static_cast<ValueId>(program_.values.size() - 1);
  step.layer = layer_;
  program_.steps.push_back(std::move(step));
  return program_.steps.back().output;
}

std::vector<Dim> Builder::tail(ValueId value) const {
  const auto& dims = program_.value(value).dims;
  return {dims.begin() + 2, dims.end()};
}

std::vector<Dim> Builder::merged_tail(ValueId value) const {
  std::vector<Dim> dims = tail(value);
  if (dims.size() == 2) dims = {{'D', program_.value(value).width}};
  return dims;
}

std::string Builder::label(ValueId value) const {
  const Step& producer = program_.step(program_.value(value).producer);
  if (producer.op == Op::kSelectRows) return label(producer.inputs[0]);
  // The last name says best what the value is for: resid_pre rather than the block before, and
  // attn_out rather than attn_proj.
  for (auto named = program_.sites.rbegin(); named != program_.sites.rend(); ++named) {
    if (named->value != value) continue;
    const bool other = named->site.stack == Stack::kEncoder && stack_ == Stack::kDecoder;
    return (other ? "encoder's " : "") + std::string(name(named->site.site));
  }
  return "x";
}

ValueId Builder::at(Site site, ValueId value) {
  // The logits belong to the whole model: their name has no stack.
  const Stack stack = site == Site::kLogits ? Stack::kOnly : stack_;
  program_.sites.push_back({{site, layer_, stack}, value});
  return value;
}

ValueId Builder::input(int64_t width) {
  program_.input = emit({.op = Op::kInput, .formula = "the block's input"}, {{'D', width}});
  return program_.input;
}

ValueId Builder::tokens() { return emit({.op = Op::kTokens, .formula = "ids"}, {}); }

ValueId Builder::embed_tokens(int64_t rows, int64_t width, ValueId ids) {
  const WeightId table = weight("token_embed.weight", {rows, width}, WeightKind::kTable);
  return emit({.op = Op::kEmbedTokens,
               .inputs = {ids},
               .weights = {table},
               .params = EmbedParams{},
               .formula = "table[tokens]"},
              {{'D', width}});
}

ValueId Builder::embed_positions(int64_t rows, int64_t offset) {
  const WeightId table = weight("pos_embed.weight", {rows, width_}, WeightKind::kTable);
  return emit(
      {.op = Op::kEmbedPositions,
       .weights = {table},
       .params = EmbedParams{.offset = offset, .kind = PositionKind::kLearned},
       .formula = offset == 0 ? "table[position]" : fmt::format("table[position + {}]", offset)},
      {{'D', width_}});
}

ValueId Builder::sinusoid(PositionKind kind) {
  const bool halves = kind == PositionKind::kSinusoidalHalves;
  return emit({.op = Op::kSinusoid,
               .params = EmbedParams{.kind = kind},
               .formula = halves ? "[sin(p/10000^(2i/D)), cos(p/10000^(2i/D))]"
                                 : "sin(p/10000^(2i/D)) at 2i, cos at 2i+1"},
              {{'D', width_}});
}

ValueId Builder::embed_types(int64_t rows) {
  const WeightId table = weight("type_embed.weight", {rows, width_}, WeightKind::kTable);
  return emit({.op = Op::kEmbedTypes,
               .weights = {table},
               .params = EmbedParams{},
               .formula = "table[token type]"},
              {{'D', width_}});
}

ValueId Builder::add(const std::vector<ValueId>& terms) {
  std::string formula;
  for (ValueId term : terms) formula += (formula.empty() ? "" : " + ") + label(term);
  return emit({.op = Op::kAdd, .inputs = terms, .formula = formula}, tail(terms.front()));
}

ValueId Builder::scale(ValueId x, double factor) {
  return emit({.op = Op::kScale,
               .inputs = {x},
               .params = ScaleParams{factor},
               .formula = fmt::format("{} · {:g}", label(x), factor)},
              merged_tail(x));
}

ValueId Builder::soft_cap(ValueId x, double cap) {
  return emit({.op = Op::kSoftCap,
               .inputs = {x},
               .params = ScaleParams{cap},
               .formula = fmt::format("{0:g} · tanh({1} / {0:g})", cap, label(x))},
              tail(x));
}

ValueId Builder::norm(ValueId x, const std::string& weight_name, const NormSpec& spec) {
  const int64_t width = program_.value(x).width;
  Step step{.op = Op::kNorm,
            .inputs = {x},
            .params = NormParams{.norm = spec, .group = width},
            .formula = norm_formula(spec, label(x))};
  step.weights = {
      spec.weight ? weight(weight_name + ".weight", {width}, WeightKind::kVector) : kNoId,
      spec.bias ? weight(weight_name + ".bias", {width}, WeightKind::kVector) : kNoId};
  return emit(std::move(step), {{'D', width}});
}

ValueId Builder::qk_norm(ValueId x, const std::string& weight_name, const QkNormSpec& spec) {
  const std::vector<Dim> dims = tail(x);  // heads, head width
  const bool whole = spec.scope == QkNormScope::kWhole;
  const int64_t group = whole ? product(dims) : dims[1].size;
  std::vector<int64_t> shape{group};
  if (spec.weight_per_head) shape = {dims[0].size, group};
  Step step{
      .op = Op::kNorm,
      .inputs = {x},
      .params =
          NormParams{.norm = spec.norm, .group = group, .weight_per_group = spec.weight_per_head},
      .formula = norm_formula(spec.norm, label(x)) + (whole ? ", over all heads" : ", per head")};
  step.weights = {
      spec.norm.weight ? weight(weight_name + ".weight", shape, WeightKind::kVector) : kNoId,
      spec.norm.bias ? weight(weight_name + ".bias", shape, WeightKind::kVector) : kNoId};
  return emit(std::move(step), dims);
}

ValueId Builder::linear(ValueId x, const std::string& weight_name, const std::vector<Dim>& out,
                        bool bias) {
  const int64_t n = product(out);
  Step step{.op = Op::kLinear,
            .inputs = {x},
            .formula = fmt::format("{} · Wᵀ{}", label(x), bias ? " + b" : "")};
  step.weights = {
      weight(weight_name + ".weight", {n, program_.value(x).width}, WeightKind::kMatrix),
      bias ? weight(weight_name + ".bias", {n}, WeightKind::kVector) : kNoId};
  return emit(std::move(step), out);
}

ValueId Builder::tied_head(ValueId x, const std::string& table_name, bool bias) {
  const WeightId table = *program_.find_weight(table_name);
  const int64_t n = program_.weight(table).shape[0];
  Step step{.op = Op::kLinear,
            .inputs = {x},
            .formula = fmt::format("{} · Eᵀ{}, E the token table", label(x), bias ? " + b" : "")};
  step.weights = {table, bias ? weight("head.bias", {n}, WeightKind::kVector) : kNoId};
  return emit(std::move(step), {{'V', n}});
}

ValueId Builder::rotary(ValueId x, const RotarySpec& spec) {
  const std::vector<Dim> dims = tail(x);
  return emit({.op = Op::kRotary,
               .inputs = {x},
               .params = RotaryParams{spec, dims[0].size, dims[1].size},
               .formula = spec.pairing == RotaryPairing::kHalfSplit
                              ? fmt::format("turn ({0}[j], {0}[j+r/2]) by p · {1:g}^(−2j/r)",
                                            label(x), spec.base)
                              : fmt::format("turn ({0}[2j], {0}[2j+1]) by p · {1:g}^(−2j/r)",
                                            label(x), spec.base)},
              dims);
}

ValueId Builder::attention(ValueId q, ValueId k, ValueId v, const AttentionParams& params,
                           const AttentionSites& sites) {
  Step step{.op = Op::kAttention,
            .inputs = {q, k, v},
            .params = params,
            .formula = fmt::format("{} · {}", name(sites.pattern), label(v))};
  const StepId producer = static_cast<StepId>(program_.steps.size());
  const auto sub_value = [&](std::vector<Dim> dims) {
    program_.values.push_back({std::move(dims), 0, rows_, producer});
    return static_cast<ValueId>(program_.values.size() - 1);
  };
  const std::vector<Dim> square = {{'B', -1}, {'H', params.heads}, {'T', -1}, {'S', -1}};
  if (sites.cached) {
    const std::vector<Dim> keys = {
        {'B', -1}, {'S', -1}, {'K', params.kv_heads}, {'E', params.head_width}};
    step.cached_keys = at(Site::kKCache, sub_value(keys));
    step.cached_values = at(Site::kVCache, sub_value(keys));
  }
  step.scores = at(sites.scores, sub_value(square));
  step.pattern = at(sites.pattern, sub_value(square));
  return emit(std::move(step), tail(q));
}

ValueId Builder::activation(ValueId x, Activation kind) {
  return emit({.op = Op::kActivation,
               .inputs = {x},
               .params = ActivationParams{kind},
               .formula = activation_formula(kind, label(x))},
              tail(x));
}

ValueId Builder::multiply(ValueId a, ValueId b) {
  return emit({.op = Op::kMultiply,
               .inputs = {a, b},
               .formula = fmt::format("{} ⊙ {}", label(a), label(b))},
              tail(a));
}

ValueId Builder::select_rows(ValueId x) {
  rows_ = Rows::kHead;
  return emit({.op = Op::kSelectRows, .inputs = {x}, .formula = "rows whose logits are wanted"},
              tail(x));
}

Program Builder::finish(ValueId output) {
  program_.output = output;
  return std::move(program_);
}

}  // namespace mainstem
