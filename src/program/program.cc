#include "mainstem/program.h"

#include "base/number_text.h"
#include "mainstem/error.h"

namespace mainstem {

std::string_view name(Op op) {
  switch (op) {
    case Op::kInput:
      return "input";
    case Op::kTokens:
      return "tokens";
    case Op::kEmbedTokens:
      return "embed_tokens";
    case Op::kEmbedPositions:
      return "embed_positions";
    case Op::kSinusoid:
      return "sinusoid";
    case Op::kEmbedTypes:
      return "embed_types";
    case Op::kAdd:
      return "add";
    case Op::kScale:
      return "scale";
    case Op::kSoftCap:
      return "soft_cap";
    case Op::kNorm:
      return "norm";
    case Op::kLinear:
      return "linear";
    case Op::kRotary:
      return "rotary";
    case Op::kAttention:
      return "attention";
    case Op::kActivation:
      return "activation";
    case Op::kMultiply:
      return "multiply";
    case Op::kSelectRows:
      return "select_rows";
    case Op::kCustom:
      return "custom";
  }
  return "?";
}

std::optional<ValueId> Program::find_value(const SiteId& site) const {
  for (const NamedValue& named : sites) {
    if (named.site == site) return named.value;
  }
  return std::nullopt;
}

std::optional<WeightId> Program::find_weight(std::string_view weight_name) const {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].name == weight_name) return static_cast<WeightId>(i);
  }
  return std::nullopt;
}

std::string Program::formula(ValueId id) const {
  const Step& producer = step(value(id).producer);
  if (producer.op != Op::kAttention || id == producer.output) return producer.formula;
  const auto& params = std::get<AttentionParams>(producer.params);
  const auto label = [&](ValueId value) {
    for (const NamedValue& named : sites) {
      if (named.value == value) return std::string(name(named.site.site));
    }
    return std::string("x");
  };
  if (id == producer.cached_keys) return "all keys, as attention reads them";
  if (id == producer.cached_values) return "all values, as attention reads them";
  if (id == producer.scores) {
    std::string text = label(producer.inputs[0]) + " · " + label(producer.inputs[1]) + "ᵀ · " +
                       number_text(params.scale, "{:.6g}");
    if (params.soft_cap != 0) text = "cap · tanh(" + text + " / cap)";
    if (!params.alibi_slopes.empty()) text += " + slope · key position";
    return text;
  }
  switch (params.mask) {
    case MaskKind::kCausal:
      return "softmax(scores, keys up to the query)";
    case MaskKind::kFull:
      return "softmax(scores)";
    case MaskKind::kWindow:
      return "softmax(scores, the last " + std::to_string(params.window) + " keys)";
  }
  return {};
}

ProgramCounts count(const Program& program, int64_t context) {
  ProgramCounts counts;
  for (const WeightInfo& weight : program.weights) {
    if (program.spec.shared_token_table && weight.name == "decoder.token_embed.weight") continue;
    int64_t size = 1;
    for (int64_t dim : weight.shape) size *= dim;
    counts.parameters += size;
  }
  if (program.spec.head.pooler) {
    const int64_t width = program.spec.stack.width;
    counts.parameters += width * width + width;
  }
  for (const Step& step : program.steps) {
    if (step.op == Op::kLinear) {
      const auto& shape = program.weight(step.weights[0]).shape;
      counts.multiply_adds += shape[0] * shape[1];
    } else if (step.op == Op::kAttention) {
      const auto& params = std::get<AttentionParams>(step.params);
      int64_t keys = context + 1;
      if (params.mask == MaskKind::kWindow && params.window < keys) keys = params.window;
      counts.multiply_adds += 2 * params.heads * params.head_width * keys;
      // Where every key is seen the whole text is there from the start: nothing is cached.
      if (!params.cross && params.mask != MaskKind::kFull &&
          program.value(step.output).rows != Rows::kEncoder) {
        counts.kv_values_per_token += 2 * params.kv_heads * params.head_width;
      }
    }
  }
  return counts;
}

}  // namespace mainstem
