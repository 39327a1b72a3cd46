#include "models/chat/files.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/json.h"
#include "io/mapped_file.h"
#include "io/text.h"
#include "mainstem/error.h"
#include "mainstem/gguf.h"

namespace mainstem::chat {
namespace {

namespace fs = std::filesystem;

struct TokenName {
  const char* config;  ///< in tokenizer_config.json, and as a variable
  const char* gguf;
};
constexpr TokenName kTokens[] = {
    {"bos_token", "tokenizer.ggml.bos_token_id"},
    {"eos_token", "tokenizer.ggml.eos_token_id"},
    {"unk_token", "tokenizer.ggml.unknown_token_id"},
    {"sep_token", "tokenizer.ggml.seperator_token_id"},
    {"pad_token", "tokenizer.ggml.padding_token_id"},
    {"cls_token", "tokenizer.ggml.cls_token_id"},
    {"mask_token", "tokenizer.ggml.mask_token_id"},
};

std::string read_text(const fs::path& path) {
  const auto file = MappedFile::open(path);
  return with_context(file->path(), [&] {
    refuse_placeholder(file->bytes(), "a chat template");
    const auto bytes = file->bytes();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

nlohmann::json read_object(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return nlohmann::json::object();
  nlohmann::json document = read_json_file(path);
  if (!document.is_object()) {
    throw bad_input("document", "a JSON object", document.type_name()).in(path.string());
  }
  return document;
}

/// Special tokens are texts, or objects with their text in `content`.
void add_special_tokens(const nlohmann::json& config, ChatFiles& files) {
  for (const TokenName& token : kTokens) {
    const auto found = config.find(token.config);
    if (found == config.end() || found->is_null()) continue;
    const bool object = found->is_object() && found->contains("content");
    const nlohmann::json& text = object ? found->at("content") : *found;
    if (!text.is_string()) {
      throw bad_input(token.config, "a string, or an object with content", found->type_name());
    }
    files.special_tokens.emplace(token.config, text.get<std::string>());
  }
}

/// `chat_template` of tokenizer_config.json: a text, or a list of {name, template}.
void add_config_templates(const nlohmann::json& config, ChatFiles& files) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return;
  if (found->is_string()) {
    files.templates.emplace("default", found->get<std::string>());
    return;
  }
  const auto is_entry = [](const nlohmann::json& entry) {
    return entry.is_object() && entry.contains("name") && entry.at("name").is_string() &&
           entry.contains("template") && entry.at("template").is_string();
  };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_entry)) {
    throw bad_input("chat_template", "a string or a list of {name, template}", "something else");
  }
  for (const auto& entry : *found) {
    files.templates[entry.at("name").get<std::string>()] = entry.at("template").get<std::string>();
  }
}

ChatFiles read_folder(const fs::path& folder) {
  ChatFiles files;
  std::error_code error;
  const fs::path main = folder / "chat_template.jinja";
  if (fs::exists(main, error)) files.templates["default"] = read_text(main);
  for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", error)) {
    if (entry.path().extension() == ".jinja") {
      files.templates[entry.path().stem().string()] = read_text(entry.path());
    }
  }
  const fs::path config_path = folder / "tokenizer_config.json";
  const nlohmann::json config = read_object(config_path);
  with_context(config_path.string(), [&] {
    // Files of their own come before what the configuration holds.
    if (files.templates.empty()) add_config_templates(config, files);
    add_special_tokens(config, files);
  });
  const fs::path map_path = folder / "special_tokens_map.json";
  const nlohmann::json map = read_object(map_path);
  with_context(map_path.string(), [&] { add_special_tokens(map, files); });
  return files;
}

}  // namespace

ChatFiles chat_files_of(const GgufFile& file) {
  ChatFiles files;
  constexpr std::string_view kKey = "tokenizer.chat_template";
  for (const GgufEntry& entry : file.metadata()) {
    if (!entry.key.starts_with(kKey) || entry.type != GgufType::kString) continue;
    const std::string_view rest = entry.key.substr(kKey.size());
    if (!rest.empty() && rest[0] != '.') continue;
    files.templates[rest.empty() ? "default" : std::string(rest.substr(1))] =
        file.need_string(entry.key);
  }
  const auto tokens = file.get_strings("tokenizer.ggml.tokens");
  for (const TokenName& token : kTokens) {
    const auto id = file.get_int(token.gguf);
    if (!tokens || !id || *id < 0 || static_cast<size_t>(*id) >= tokens->size()) continue;
    files.special_tokens.emplace(token.config, (*tokens)[static_cast<size_t>(*id)]);
  }
  return files;
}

ChatFiles read_chat_files(const fs::path& folder_or_file) {
  std::error_code error;
  if (fs::is_directory(folder_or_file, error)) return read_folder(folder_or_file);
  if (folder_or_file.extension() == ".json") return read_folder(folder_or_file.parent_path());
  return chat_files_of(GgufFile::open(folder_or_file));
}

}  // namespace mainstem::chat
