#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "mainstem/spec.h"

namespace mainstem {

/// What a model's files say about generating text, beside the tokenizer's own.
struct GenerationRules {
  std::vector<int64_t> end_ids;
  std::optional<int64_t> decoder_start;  ///< of an encoder-decoder
  std::vector<std::vector<int64_t>> bad_words;
};

/// From generation_config.json, where the folder has one, and config.json for what that leaves out
/// (GenerationConfig of transformers 5.24; the end ids of both). Error (bad input): a start token
/// outside the vocabulary, lists of another form.
GenerationRules read_generation_rules(const std::filesystem::path& folder,
                                      const nlohmann::json& config, const ModelSpec& spec);

}  // namespace mainstem
