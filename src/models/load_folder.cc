#include <nlohmann/json.hpp>

#include "io/json.h"
#include "mainstem/error.h"
#include "mainstem/safetensors.h"
#include "models/loaded_files.h"

namespace mainstem {
namespace fs = std::filesystem;

const Family& family_of(const nlohmann::json& config, const std::string& file) {
  std::string type;
  if (const auto found = config.find("model_type"); found != config.end() && found->is_string()) {
    type = found->get<std::string>();
  }
  for (const Family& family : families()) {
    for (std::string_view candidate : family.model_types) {
      if (candidate == type) return family;
    }
  }
  throw bad_input("model_type", "one of " + list_families(false), type.empty() ? "none" : type)
      .in(file);
}

ModelSpec read_spec(const Family& family, ConfigReader& config, const HasTensor& has_tensor,
                    const std::vector<std::string>& allow_unknown_keys) {
  return with_context(config.file(), [&] {
    ModelSpec spec = family.read_config(config, has_tensor);
    config.finish(allow_unknown_keys);
    validate(spec);
    return spec;
  });
}

namespace {

/// The family with the names of the user's own modules in its rows.
Family with_names(Family family, const ModuleNames& names) {
  for (WeightRow& row : family.rows) {
    for (const auto& [slot, module] : names) {
      for (size_t at = row.hf.find(slot); at != std::string::npos; at = row.hf.find(slot)) {
        row.hf.replace(at, slot.size(), module);
      }
    }
  }
  return family;
}

/// The other names under which a tensor may lie: files written from the base class leave its
/// prefix out, and old ones call a norm's weight and bias gamma and beta.
std::vector<std::string> spellings(const Family& family, const std::string& name) {
  std::vector<std::string> names = {name};
  if (!family.prefixes.empty()) {
    const std::string_view prefix = family.prefixes[0];
    for (size_t i = 1; i < family.prefixes.size(); ++i) {
      if (!name.starts_with(prefix)) continue;
      names.push_back(std::string(family.prefixes[i]) + name.substr(prefix.size()));
    }
  }
  for (size_t i = 0, count = names.size(); i < count; ++i) {
    const std::string each = names[i];  // a copy: the list grows
    if (each.ends_with("orm.weight")) names.push_back(each.substr(0, each.size() - 6) + "gamma");
    if (each.ends_with("orm.bias")) names.push_back(each.substr(0, each.size() - 4) + "beta");
  }
  return names;
}

/// The weights' files and what tokenizers, templates and the config itself are read from.
std::vector<fs::path> files_of(const fs::path& path, const SafetensorsFolder& weights) {
  std::vector<fs::path> files;
  for (const SafetensorsFile& file : weights.files()) files.emplace_back(file.path());
  std::error_code error;  // what cannot be listed cannot have been read
  for (fs::recursive_directory_iterator each(path, error), end; !error && each != end;
       each.increment(error)) {
    const std::string kind = each->path().extension().string();
    if (kind == ".json" || kind == ".jinja" || kind == ".txt" || kind == ".model" ||
        kind == ".spm") {
      files.push_back(each->path());
    }
    if (each.depth() > 0) each.disable_recursion_pending();
  }
  return files;
}

}  // namespace

LoadedFiles load_folder(const fs::path& path, const LoadOptions& options) {
  const fs::path config_path = path / "config.json";
  if (!fs::exists(config_path)) {
    throw bad_input("model folder", "a config.json", "none").in(path.string());
  }
  const nlohmann::json config = read_json_file(config_path);
  if (!config.is_object()) {
    throw bad_input("config", "a JSON object", "something else").in(config_path.string());
  }
  LoadedFiles loaded;
  loaded.words = path;
  const Family& known = family_of(config, config_path.string());
  loaded.family = &known;
  ConfigReader reader(config, config_path.string());
  const Family family =
      known.read_names == nullptr ? known : with_names(known, known.read_names(reader));
  const auto folder = std::make_shared<SafetensorsFolder>(open_safetensors_folder(path));

  const auto find = [&](const std::string& name) -> FoundTensor {
    for (const std::string& spelling : spellings(family, name)) {
      if (const StoredTensor* tensor = folder->find(spelling)) return {tensor, folder};
    }
    return {};
  };
  const auto has_tensor = [&](std::string_view name) {
    return find(std::string(name)).tensor != nullptr;
  };
  loaded.program = build_program(read_spec(family, reader, has_tensor, options.allow_unknown_keys));
  std::set<std::string> used;
  loaded.sources = find_weights(loaded.program, family, false, find, folder->path(), used);
  loaded.ignored = unused_tensors(folder->tensors(), used, family, folder->path());
  loaded.files = files_of(path, *folder);
  loaded.notes = folder->warnings();
  loaded.generation = read_generation_rules(path, config, loaded.program.spec);
  // What Tokenizer::load() reads of a folder.
  for (const char* file :
       {"tokenizer.json", "tokenizer.model", "spiece.model", "source.spm", "vocab.txt"}) {
    loaded.has_tokenizer |= fs::exists(path / file);
  }
  return loaded;
}

}  // namespace mainstem
