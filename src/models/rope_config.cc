#include "models/rope_config.h"

#include "mainstem/error.h"

namespace mainstem {
namespace {

RotaryScaling read_scaling(ConfigReader& rope, const std::string& type, int64_t context,
                           std::optional<int64_t> outer_original) {
  RotaryScaling scaling;
  const auto need = [&](const char* key) {
    const auto value = rope.get_number(key);
    if (!value) rope.fail(key, "a number");
    return *value;
  };
  const auto original = [&] {
    const auto own = rope.get_int("original_max_position_embeddings");
    return outer_original ? *outer_original : own.value_or(context);
  };
  if (type == "default") return scaling;
  if (type == "linear") {
    scaling.kind = RotaryScalingKind::kLinear;
    scaling.factor = need("factor");
  } else if (type == "dynamic") {
    scaling.kind = RotaryScalingKind::kDynamic;
    scaling.factor = need("factor");
    // The reference grows from max_position_embeddings, whatever the record says.
    rope.ignore({"original_max_position_embeddings"});
    scaling.original_context = context;
  } else if (type == "llama3") {
    scaling.kind = RotaryScalingKind::kLlama3;
    scaling.factor = need("factor");
    scaling.low_freq_factor = need("low_freq_factor");
    scaling.high_freq_factor = need("high_freq_factor");
    scaling.original_context = original();
  } else if (type == "yarn") {
    scaling.kind = RotaryScalingKind::kYarn;
    scaling.original_context = original();
    scaling.factor = rope.number_or(
        "factor", static_cast<double>(context) / static_cast<double>(scaling.original_context));
    scaling.beta_fast = rope.number_or("beta_fast", 32);
    scaling.beta_slow = rope.number_or("beta_slow", 1);
    scaling.truncate = rope.bool_or("truncate", true);
    scaling.attention_factor = rope.get_number("attention_factor");
    scaling.mscale = rope.get_number("mscale");
    scaling.mscale_all_dim = rope.get_number("mscale_all_dim");
  } else if (type == "longrope") {
    scaling.kind = RotaryScalingKind::kLongRope;
    scaling.original_context = original();
    scaling.factor = rope.number_or(
        "factor", static_cast<double>(context) / static_cast<double>(scaling.original_context));
    scaling.attention_factor = rope.get_number("attention_factor");
    scaling.short_divisors = rope.get_numbers("short_factor");
    scaling.long_divisors = rope.get_numbers("long_factor");
  } else {
    rope.fail("rope_type", "default, linear, dynamic, yarn, llama3 or longrope");
  }
  return scaling;
}

/// Whatever the type says, divisors in the file are used, as llama.cpp does.
RotaryScaling read_scaling(GgufWords& words, int64_t pairs, int64_t context) {
  RotaryScaling scaling;
  const std::string type(words.get_string("rope.scaling.type").value_or(""));
  const double old_linear = words.get_number("rope.scale_linear").value_or(1);
  const double factor = words.get_number("rope.scaling.factor").value_or(old_linear);
  const int64_t original = words.get_int("rope.scaling.original_context_length").value_or(context);
  if (words.has("rope_freqs.weight")) {
    scaling.kind = RotaryScalingKind::kDivisors;
    scaling.short_divisors = words.take_values("rope_freqs.weight", pairs);
  } else if (type == "longrope" || words.has("rope_factors_long.weight") ||
             words.has("rope_factors_short.weight")) {
    scaling.kind = RotaryScalingKind::kLongRope;
    scaling.original_context = original;
    if (original > 0) scaling.factor = static_cast<double>(context) / static_cast<double>(original);
    scaling.attention_factor = words.get_number("rope.scaling.attn_factor");
    scaling.short_divisors = words.take_values("rope_factors_short.weight", pairs);
    scaling.long_divisors = words.take_values("rope_factors_long.weight", pairs);
  } else if (type == "yarn") {
    scaling.kind = RotaryScalingKind::kYarn;
    scaling.factor = factor;
    scaling.original_context = original;
    scaling.beta_fast = words.get_number("rope.scaling.yarn_beta_fast").value_or(32);
    scaling.beta_slow = words.get_number("rope.scaling.yarn_beta_slow").value_or(1);
  } else if (type == "linear" || (type.empty() && factor != 1 && factor != 0)) {
    scaling.kind = RotaryScalingKind::kLinear;
    scaling.factor = factor;
  } else if (!type.empty() && type != "none") {
    words.fail("rope.scaling.type", "none, linear, yarn or longrope", type);
  }
  return scaling;
}

}  // namespace

void check_divisors(const ConfigReader& rope, const RotarySpec& rotary) {
  const auto pairs = static_cast<size_t>(rotary.width / 2);
  const auto check = [&](const char* key, const std::vector<double>& list) {
    if (list.size() != pairs) rope.fail(key, std::to_string(pairs) + " numbers");
  };
  if (rotary.scaling.kind != RotaryScalingKind::kLongRope) return;
  check("short_factor", rotary.scaling.short_divisors);
  check("long_factor", rotary.scaling.long_divisors);
}

RotarySpec read_rotary_record(ConfigReader& rope, RotarySpec rotary, int64_t context,
                              std::optional<int64_t> outer_original) {
  rotary.base = rope.number_or("rope_theta", rotary.base);
  const auto new_type = rope.get_string("rope_type");
  const auto old_type = rope.get_string("type");
  const std::string type = new_type.value_or(old_type.value_or("default"));
  rotary.scaling = read_scaling(rope, type, context, outer_original);
  return rotary;
}

RotarySpec read_rotary(ConfigReader& config, int64_t head_width, const RotaryWords& words) {
  RotarySpec rotary;
  rotary.width = head_width;
  rotary.base = words.base;
  double share = words.share.value_or(1);
  if (words.record_only) {
    config.ignore({"rope_theta", "partial_rotary_factor"});
  } else {
    rotary.base = config.number_or("rope_theta", words.base);
    if (words.share) share = config.number_or("partial_rotary_factor", share);
  }
  const auto outer_original = config.get_int("original_max_position_embeddings");
  const nlohmann::json* old_form = config.get_object("rope_scaling");
  const nlohmann::json* new_form = config.get_object("rope_parameters");
  const nlohmann::json* record = old_form != nullptr && !old_form->empty() ? old_form : new_form;
  if (record != nullptr && !record->empty()) {
    ConfigReader rope(*record,
                      std::string(record == old_form ? "rope_scaling" : "rope_parameters") + ", " +
                          config.file());
    rotary = read_rotary_record(rope, rotary, words.context, outer_original);
    // Where the share is not the family's to set, the reference reads the key and forgets it.
    const auto own_share = rope.get_number("partial_rotary_factor");
    if (words.share && own_share) share = *own_share;
    rope.finish({});
  }
  if (!(share > 0 && share <= 1)) {
    config.fail("partial_rotary_factor", "a number above 0, at most 1");
  }
  rotary.width = static_cast<int64_t>(static_cast<double>(head_width) * share);
  check_divisors(config, rotary);
  return rotary;
}

RotarySpec read_rotary(GgufWords& words, int64_t head_width, int64_t context) {
  RotarySpec rotary;
  rotary.width = words.get_int("rope.dimension_count").value_or(head_width);
  rotary.base = words.get_number("rope.freq_base").value_or(10000);
  rotary.scaling = read_scaling(words, rotary.width / 2, context);
  return rotary;
}

}  // namespace mainstem
