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

}  // namespace

RotarySpec read_rotary(ConfigReader& config, int64_t width, double default_base, int64_t context) {
  RotarySpec rotary;
  rotary.width = width;
  rotary.base = config.number_or("rope_theta", default_base);
  const auto outer_original = config.get_int("original_max_position_embeddings");
  const nlohmann::json* old_form = config.get_object("rope_scaling");
  const nlohmann::json* new_form = config.get_object("rope_parameters");
  const nlohmann::json* record = old_form != nullptr && !old_form->empty() ? old_form : new_form;
  if (record == nullptr || record->empty()) return rotary;

  ConfigReader rope(*record, std::string(record == old_form ? "rope_scaling" : "rope_parameters") +
                                 ", " + config.file());
  rotary.base = rope.number_or("rope_theta", rotary.base);
  const auto new_type = rope.get_string("rope_type");
  const auto old_type = rope.get_string("type");
  const std::string type = new_type.value_or(old_type.value_or("default"));
  rotary.scaling = read_scaling(rope, type, context, outer_original);
  // The plain rotary classes read this key and do nothing with it.
  rope.ignore({"partial_rotary_factor"});
  rope.finish({});
  return rotary;
}

}  // namespace mainstem
