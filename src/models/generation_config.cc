#include "models/generation_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

using nlohmann::json;

/// A JSON object and the file that holds it.
struct Source {
  json object;
  std::string file;

  const json* find(const char* key) const {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }
};

std::vector<int64_t> ids_of(const json* value) {
  std::vector<int64_t> ids;
  if (value == nullptr) return ids;
  if (value->is_number_integer()) ids.push_back(value->get<int64_t>());
  if (!value->is_array()) return ids;
  for (const json& id : *value) {
    if (id.is_number_integer()) ids.push_back(id.get<int64_t>());
  }
  return ids;
}

std::optional<int64_t> start_of(const std::vector<Source>& sources, int64_t vocab_size) {
  for (const char* key : {"decoder_start_token_id", "bos_token_id"}) {
    for (const Source& source : sources) {
      const json* value = source.find(key);
      if (value == nullptr) continue;
      const int64_t id = value->is_number_integer() ? value->get<int64_t>() : -1;
      if (id >= 0 && id < vocab_size) return id;
      throw bad_input(key, "an id from 0 to " + std::to_string(vocab_size - 1), "another")
          .in(source.file);
    }
  }
  return std::nullopt;
}

std::vector<std::vector<int64_t>> bad_words_of(const Source& source) {
  std::vector<std::vector<int64_t>> words;
  const json* lists = source.find("bad_words_ids");
  if (lists == nullptr) return words;
  const auto fail = [&] {
    throw bad_input("bad_words_ids", "a list of lists of ids", "something else").in(source.file);
  };
  if (!lists->is_array()) fail();
  for (const json& list : *lists) {
    if (!list.is_array() || list.empty()) fail();
    words.push_back(ids_of(&list));
    if (words.back().size() != list.size()) fail();
  }
  // An end token cannot be forbidden.
  for (const int64_t end : ids_of(source.find("eos_token_id"))) {
    std::erase(words, std::vector<int64_t>{end});
  }
  return words;
}

}  // namespace

GenerationRules read_generation_rules(const std::filesystem::path& folder, const json& config,
                                      const ModelSpec& spec) {
  std::vector<Source> sources;
  const std::filesystem::path own = folder / "generation_config.json";
  if (std::filesystem::exists(own)) {
    json object = read_json_file(own);
    if (!object.is_object()) {
      throw bad_input("generation config", "a JSON object", "something else").in(own.string());
    }
    sources.push_back({std::move(object), own.string()});
  }
  sources.push_back({config, (folder / "config.json").string()});
  GenerationRules rules;
  for (const Source& source : sources) {
    for (const int64_t id : ids_of(source.find("eos_token_id"))) rules.end_ids.push_back(id);
    if (rules.bad_words.empty()) rules.bad_words = bad_words_of(source);
  }
  if (spec.encoder) rules.decoder_start = start_of(sources, spec.vocab_size);
  return rules;
}

}  // namespace mainstem
