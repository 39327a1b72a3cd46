#include "models/tokenizer/side_files.h"

#include <algorithm>
#include <utility>

#include "io/json.h"
#include "models/tokenizer/json_fields.h"

namespace mainstem::tokenizer {

using nlohmann::json;

json parse_side_file(const char* name, const std::string& text) {
  if (text.empty()) return json::object();
  return with_context(name, [&] {
    json object = parse_json(text);
    if (!object.is_object()) throw bad_input(name, "an object", object.type_name());
    return object;
  });
}

void add_end_ids(const json& generation_config, const json& config, TokenizerSpec& spec) {
  if (spec.eos_id) spec.end_ids.push_back(*spec.eos_id);
  // What these files say about ids past the tokenizer's (padded rows) does not end anything.
  const auto add = [&](const json& id) {
    if (!id.is_number_integer()) return;
    const auto value = id.get<int64_t>();
    const bool present = value >= 0 && value < static_cast<int64_t>(spec.tokens.size()) &&
                         spec.tokens[static_cast<size_t>(value)].kind != TokenKind::kAbsent;
    if (present) spec.end_ids.push_back(value);
  };
  for (const auto& [object, name] : {std::pair(&generation_config, "generation_config.json"),
                                     std::pair(&config, "config.json")}) {
    const json* ids = member(*object, "eos_token_id", name);
    if (ids == nullptr) continue;
    if (ids->is_array()) {
      for (const json& id : *ids) add(id);
    } else {
      add(*ids);
    }
  }
  for (const AddedToken& token : spec.added) {
    if (token.special && is_known_end(token.content)) spec.end_ids.push_back(token.id);
  }
}

bool is_known_end(std::string_view content) {
  constexpr std::string_view kEnds[] = {
      "<|eot_id|>", "<|eom_id|>",    "<|end_of_text|>", "<|im_end|>", "<|endoftext|>",
      "<|end|>",    "<end_of_turn>", "<EOT>",           "</s>",       "<|END_OF_TURN_TOKEN|>"};
  return std::ranges::find(kEnds, content) != std::end(kEnds);
}

}  // namespace mainstem::tokenizer
