#include "cli/spec_json.h"

#include <string>

namespace mainstem::cli {
namespace {

using Json = JsonWriter;

Json& text(Json& json, std::string_view key, std::string_view value) {
  return json.key(key).value(value);
}

void write(Json& json, const NormSpec& norm) {
  json.begin_object();
  text(json, "kind", name(norm.kind));
  json.field("eps", norm.eps).field("weight_offset", norm.weight_offset);
  json.field("weight", norm.weight).field("bias", norm.bias).end_object();
}

void write_optional(Json& json, std::string_view key, const std::optional<NormSpec>& norm) {
  json.key(key);
  norm ? write(json, *norm) : void(json.null());
}

void write(Json& json, const RotaryScaling& scaling) {
  json.begin_object();
  text(json, "kind", name(scaling.kind));
  const RotaryScalingKind kind = scaling.kind;
  if (kind == RotaryScalingKind::kDivisors) {
    json.field("divisors", scaling.short_divisors);
  } else if (kind != RotaryScalingKind::kNone) {
    json.field("factor", scaling.factor).field("original_context", scaling.original_context);
  }
  if (kind == RotaryScalingKind::kLlama3) {
    json.field("low_freq_factor", scaling.low_freq_factor);
    json.field("high_freq_factor", scaling.high_freq_factor);
  }
  if (kind == RotaryScalingKind::kYarn) {
    json.field("beta_fast", scaling.beta_fast).field("beta_slow", scaling.beta_slow);
    json.field("truncate", scaling.truncate).field("mscale", scaling.mscale);
    json.field("mscale_all_dim", scaling.mscale_all_dim);
  }
  if (kind == RotaryScalingKind::kYarn || kind == RotaryScalingKind::kLongRope) {
    json.field("attention_factor", scaling.attention_factor);
  }
  if (kind == RotaryScalingKind::kLongRope) {
    json.field("short_divisors", scaling.short_divisors);
    json.field("long_divisors", scaling.long_divisors);
  }
  json.end_object();
}

void write(Json& json, const AttentionSpec& spec) {
  json.begin_object();
  json.field("heads", spec.heads).field("kv_heads", spec.kv_heads);
  json.field("head_width", spec.head_width);
  json.field("q_bias", spec.q_bias).field("k_bias", spec.k_bias).field("v_bias", spec.v_bias);
  json.field("output_bias", spec.output_bias).field("output_projection", spec.output_projection);
  json.key("qk_norm");
  if (spec.qk_norm) {
    json.begin_object();
    text(json, "scope", name(spec.qk_norm->scope)).key("norm");
    write(json, spec.qk_norm->norm);
    json.field("weight_per_head", spec.qk_norm->weight_per_head);
    json.field("after_rotary", spec.qk_norm->after_rotary).end_object();
  } else {
    json.null();
  }
  json.key("rotary");
  if (spec.rotary) {
    json.begin_object();
    text(json, "pairing", name(spec.rotary->pairing));
    json.field("width", spec.rotary->width).field("base", spec.rotary->base).key("scaling");
    write(json, spec.rotary->scaling);
    json.end_object();
  } else {
    json.null();
  }
  json.field("alibi_slopes", spec.alibi_slopes);
  text(json, "mask", name(spec.mask)).field("window", spec.window);
  json.field("score_scale", spec.score_scale).field("soft_cap", spec.soft_cap).end_object();
}

void write(Json& json, const MlpSpec& spec) {
  json.begin_object().field("hidden", spec.hidden).field("gated", spec.gated);
  text(json, "activation", name(spec.activation)).field("combined", spec.combined);
  json.field("up_bias", spec.up_bias).field("down_bias", spec.down_bias).end_object();
}

void write_fields(Json& json, const BlockSpec& spec) {
  json.field("width", spec.width).key("norm");
  write(json, spec.norm);
  text(json, "placement", name(spec.placement));
  text(json, "residual", name(spec.residual));
  json.field("residual_multiplier", spec.residual_multiplier).key("attention");
  write(json, spec.attention);
  json.key("cross_attention");
  spec.cross_attention ? write(json, *spec.cross_attention) : void(json.null());
  json.key("mlp");
  write(json, spec.mlp);
}

void write(Json& json, const StackSpec& spec) {
  json.begin_object(Json::kLines).field("width", spec.width).field("embed_width", spec.embed_width);
  json.field("embed_scale", spec.embed_scale);
  text(json, "positions", name(spec.positions)).field("position_rows", spec.position_rows);
  json.field("position_offset", spec.position_offset).field("token_types", spec.token_types);
  write_optional(json, "embed_norm", spec.embed_norm);
  json.field("layers", spec.blocks.size()).key("blocks").begin_array(Json::kLines);
  for (const BlockGroup& group : group_blocks(spec)) {
    json.begin_object().field("layers", group.layers);
    write_fields(json, *group.block);
    json.end_object();
  }
  json.end_array();
  write_optional(json, "final_norm", spec.final_norm);
  json.end_object();
}

void write(Json& json, const HeadSpec& spec) {
  json.begin_object();
  text(json, "kind", name(spec.kind)).field("tied", spec.tied).field("bias", spec.bias);
  json.field("projection_width", spec.projection_width);
  if (spec.kind == HeadKind::kMaskedLanguage) {
    text(json, "activation", name(spec.activation)).key("norm");
    write(json, spec.norm);
  }
  json.field("logit_scale", spec.logit_scale).field("logit_cap", spec.logit_cap).end_object();
}

}  // namespace

std::vector<BlockGroup> group_blocks(const StackSpec& stack) {
  std::vector<BlockGroup> groups;
  for (size_t layer = 0; layer < stack.blocks.size(); ++layer) {
    const BlockSpec& block = stack.blocks[layer];
    BlockGroup* found = nullptr;
    for (BlockGroup& group : groups) {
      if (*group.block == block) found = &group;
    }
    if (found == nullptr) found = &groups.emplace_back(BlockGroup{&block, {}});
    found->layers.push_back(static_cast<int64_t>(layer));
  }
  return groups;
}

std::string layers_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size(); ++i) {
    size_t end = i;
    while (end + 1 < layers.size() && layers[end + 1] == layers[end] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(layers[i]);
    if (end > i) text += (end == i + 1 ? "," : "-") + std::to_string(layers[end]);
    i = end;
  }
  return text;
}

void write_spec(JsonWriter& json, const BlockSpec& spec) {
  json.begin_object();
  write_fields(json, spec);
  json.end_object();
}

void write_spec(JsonWriter& json, const ModelSpec& spec) {
  json.begin_object(Json::kLines).field("vocab_size", spec.vocab_size);
  json.field("context_length", spec.context_length).key("encoder");
  spec.encoder ? write(json, *spec.encoder) : void(json.null());
  json.key("stack");
  write(json, spec.stack);
  json.key("head");
  write(json, spec.head);
  json.field("shared_token_table", spec.shared_token_table).end_object();
}

}  // namespace mainstem::cli
