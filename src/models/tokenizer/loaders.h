#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "mainstem/gguf.h"
#include "models/tokenizer/pipeline.h"
#include "models/tokenizer/spec.h"

namespace mainstem::tokenizer {

/// The files beside tokenizer.json, as text; empty where there is none.
struct SideFiles {
  std::string tokenizer_config{}, generation_config{}, config{};
};

std::shared_ptr<const Pipeline> from_gguf(const GgufFile& file);
std::shared_ptr<const Pipeline> from_tokenizer_json(std::string_view text, const SideFiles& side);

/// Texts of control tokens that end an answer in chat models, whatever the file calls its EOS.
bool is_known_end(std::string_view content);

}  // namespace mainstem::tokenizer
