// The files that sentence-transformers (5.1) writes beside a model.

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "mainstem/embed.h"
#include "mainstem/error.h"
#include "mainstem/gguf.h"

namespace mainstem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A file of the folder as an object; an empty one where there is none.
json read_object(const fs::path& path) {
  if (!fs::exists(path)) return json::object();
  json object = read_json_file(path);
  if (!object.is_object()) throw bad_input("file", "a JSON object", "something else").in(path);
  return object;
}

bool truth(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Of a number of tokens; 0 where there is none, or one as large as "never".
int64_t length_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return 0;
  const double value = found->get<double>();
  return value >= 1 && value < 1e9 ? static_cast<int64_t>(value) : 0;
}

Pooling read_pooling(const fs::path& path) {
  struct Mode {
    const char* key;
    const char* name;
    Pooling pooling;
  };
  constexpr Mode kModes[] = {
      {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
      {"pooling_mode_cls_token", "cls", Pooling::kCls},
      {"pooling_mode_max_tokens", "max", Pooling::kMax},
      {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::kMeanSqrtLen},
  };
  json config = read_object(path);
  std::string chosen = text_of(config, "pooling_mode");
  if (chosen.empty()) {
    // The class's default.
    if (!config.contains("pooling_mode_mean_tokens")) config["pooling_mode_mean_tokens"] = true;
    for (const auto& [key, value] : config.items()) {
      if (!key.starts_with("pooling_mode_") || value != true) continue;
      chosen += (chosen.empty() ? "" : " and ") + key;
    }
  }
  const Mode* found = nullptr;
  for (const Mode& mode : kModes) {
    if (chosen == mode.key || chosen == mode.name) found = &mode;
  }
  if (found != nullptr) return found->pooling;
  throw bad_input("pooling", "one of mean, cls, max and mean_sqrt_len",
                  chosen.empty() ? "none" : chosen)
      .in(path.string());
}

void read_modules(const fs::path& folder, EmbeddingRules& rules) {
  const fs::path path = folder / "modules.json";
  if (!fs::exists(path)) return;
  const json modules = read_json_file(path);
  if (!modules.is_array()) throw bad_input("modules", "a list", "something else").in(path.string());
  bool pooled = false;
  for (const json& module : modules) {
    const std::string type = module.is_object() ? text_of(module, "type") : std::string();
    const std::string last = type.substr(type.rfind('.') + 1);
    if (last == "Transformer" || last == "Dropout") continue;
    if (last == "Pooling" && !pooled) {
      const fs::path inner = fs::path(text_of(module, "path")) / "config.json";
      rules.pooling = read_pooling(folder / inner);
      rules.source = inner.string();
      pooled = true;
    } else if (last == "Normalize" && pooled) {
      rules.normalize = true;
      rules.source += ", modules.json";
    } else {
      throw bad_input("modules", "Transformer, Pooling and Normalize, in this order",
                      type.empty() ? "a module without a type" : type)
          .in(path.string());
    }
  }
  if (!pooled) throw bad_input("modules", "a Pooling", "none").in(path.string());
}

void read_prompt(const fs::path& folder, EmbeddingRules& rules) {
  const fs::path path = folder / "config_sentence_transformers.json";
  const json config = read_object(path);
  const std::string name = text_of(config, "default_prompt_name");
  if (name.empty()) return;
  const auto prompts = config.find("prompts");
  if (prompts == config.end() || !prompts->is_object() || !prompts->contains(name)) {
    throw bad_input("default_prompt_name", "one of the prompts", name).in(path.string());
  }
  rules.prompt = text_of(*prompts, name.c_str());
}

/// The shortest of what the files say, as sentence-transformers takes it.
int64_t read_max_tokens(const fs::path& folder, int64_t context) {
  const fs::path path = folder / "sentence_bert_config.json";
  const json config = read_object(path);
  if (truth(config, "do_lower_case")) {
    throw bad_input("do_lower_case", "false (the tokenizer's files say what is lowered)", "true")
        .in(path.string());
  }
  int64_t length = length_of(config, "max_seq_length");
  if (length == 0)
    length = length_of(read_object(folder / "tokenizer_config.json"), "model_max_length");
  if (context > 0 && (length == 0 || length > context)) length = context;
  return length;
}

void read_gguf_pooling(const fs::path& path, EmbeddingRules& rules) {
  const GgufFile file = GgufFile::open(path);
  const std::string key = std::string(file.need_string("general.architecture")) + ".pooling_type";
  const auto type = file.get_int(key);
  if (!type || *type == 0) return;  // "none": every token for itself
  rules.source = key;
  if (*type == 1) return;
  if (*type != 2)
    throw bad_input(key, "1 (mean) or 2 (cls)", std::to_string(*type)).in(path.string());
  rules.pooling = Pooling::kCls;
}

}  // namespace

EmbeddingRules read_embedding_rules(const Model& model) {
  EmbeddingRules rules;
  const fs::path& path = model.path();
  const int64_t context = model.spec().context_length;
  if (!fs::is_directory(path)) {
    rules.max_tokens = context;
    read_gguf_pooling(path, rules);
    return rules;
  }
  read_modules(path, rules);
  read_prompt(path, rules);
  rules.max_tokens = read_max_tokens(path, context);
  return rules;
}

}  // namespace mainstem
