#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "models/tokenizer/spec.h"

namespace mainstem::tokenizer {

/// The files beside a tokenizer's own, as text; empty where there is none.
struct SideFiles {
  std::string tokenizer_config{}, generation_config{}, config{};
};

/// An empty object for an empty text.
nlohmann::json parse_side_file(const char* name, const std::string& text);

/// EOS, what the two files list, and the special tokens that are known to end an answer.
void add_end_ids(const nlohmann::json& generation_config, const nlohmann::json& config,
                 TokenizerSpec& spec);

/// Texts of control tokens that end an answer in chat models, whatever the file calls its EOS.
bool is_known_end(std::string_view content);

}  // namespace mainstem::tokenizer
