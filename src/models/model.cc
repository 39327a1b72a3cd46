#include "mainstem/model.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "io/json.h"
#include "mainstem/error.h"
#include "mainstem/gguf.h"
#include "mainstem/safetensors.h"
#include "models/families/family.h"
#include "models/weight_names.h"

namespace mainstem {
namespace fs = std::filesystem;

struct Model::Impl {
  std::string family;
  fs::path path;
  std::shared_ptr<const BoundProgram> bound;
  WeightSources sources;
  std::vector<std::string> ignored, notes;
  std::vector<int64_t> file_end_ids;  // what the config itself says
  bool has_tokenizer = false;

  void load_folder(const LoadOptions& options);
  void load_gguf();

  mutable std::once_flag tokenizer_once;
  mutable std::unique_ptr<Tokenizer> tokenizer;
  mutable std::once_flag end_ids_once;
  mutable std::vector<int64_t> end_ids;
};

namespace {

std::string list_families(bool gguf) {
  std::string text;
  for (const Family& family : families()) {
    for (std::string_view name : gguf ? family.gguf_archs : family.model_types) {
      text += (text.empty() ? "" : ", ") + std::string(name);
    }
  }
  return text;
}

bool matches_any(std::string_view name, const std::vector<std::string_view>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](std::string_view pattern) { return glob_match(pattern, name); });
}

/// Error that lists tensors nobody asked for.
template <typename Tensors>
std::vector<std::string> check_leftovers(const Tensors& tensors, const std::set<std::string>& used,
                                         const Family& family, const std::string& file) {
  std::vector<std::string> ignored;
  std::string unknown;
  int count = 0;
  for (const StoredTensor* tensor : tensors) {
    if (used.contains(tensor->name)) continue;
    if (matches_any(tensor->name, family.ignored_tensors)) {
      ignored.push_back(tensor->name);
    } else if (++count <= 8) {
      unknown += (unknown.empty() ? "" : ", ") + tensor->name;
    }
  }
  if (count > 8) unknown += " and " + std::to_string(count - 8) + " more";
  if (count > 0) {
    throw bad_input("tensors", "only those that the config asks for", unknown).in(file);
  }
  return ignored;
}

/// Finds every weight of the program; `lookup` gives the stored tensor or null.
template <typename Lookup, typename NameOf>
WeightSources collect_sources(const Program& program, const Family& family, const Lookup& lookup,
                              const NameOf& name_of, const std::string& file,
                              std::set<std::string>& used) {
  WeightSources sources;
  std::string missing;
  int count = 0;
  for (const WeightInfo& weight : program.weights) {
    const WeightPlace place = find_place(family, weight.name);
    const std::string stored_name = name_of(place);
    const auto found = lookup(stored_name);
    if (found.tensor == nullptr) {
      if (++count <= 8) missing += (missing.empty() ? "" : ", ") + stored_name;
      continue;
    }
    used.insert(found.tensor->name);
    WeightSource source;
    source.tensor = with_context(file, [&] { return found.tensor->view(); });
    source.keep_alive = found.storage;
    source.stored_name = found.tensor->name;
    sources.emplace(weight.name, std::move(source));
  }
  if (count > 8) missing += " and " + std::to_string(count - 8) + " more";
  if (count > 0) {
    throw bad_input("tensors that the config asks for", "all of them", "no " + missing).in(file);
  }
  return sources;
}

struct Found {
  const StoredTensor* tensor = nullptr;
  std::shared_ptr<const void> storage;
};

std::vector<int64_t> end_ids_of(const nlohmann::json& config) {
  std::vector<int64_t> ids;
  const auto found = config.find("eos_token_id");
  if (found == config.end()) return ids;
  if (found->is_number_integer()) ids.push_back(found->get<int64_t>());
  if (found->is_array()) {
    for (const auto& id : *found) {
      if (id.is_number_integer()) ids.push_back(id.get<int64_t>());
    }
  }
  return ids;
}

const Family& family_of_config(const nlohmann::json& config, const std::string& file) {
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

}  // namespace

// The two ways in, members of Impl because that type is private to Model.
void Model::Impl::load_folder(const LoadOptions& options) {
  const fs::path config_path = path / "config.json";
  if (!fs::exists(config_path)) {
    throw bad_input("model folder", "a config.json", "none").in(path.string());
  }
  const nlohmann::json config = read_json_file(config_path);
  if (!config.is_object()) {
    throw bad_input("config", "a JSON object", "something else").in(config_path.string());
  }
  const Family& rules = family_of_config(config, config_path.string());
  family = rules.name;
  const auto folder = std::make_shared<SafetensorsFolder>(open_safetensors_folder(path));

  // Files written from the base class leave its prefix out.
  const auto lookup = [&](const std::string& name) -> Found {
    const StoredTensor* tensor = folder->find(name);
    if (tensor == nullptr && !rules.base_prefix.empty() && name.starts_with(rules.base_prefix)) {
      tensor = folder->find(name.substr(rules.base_prefix.size()));
    }
    return {tensor, folder};
  };
  ConfigReader reader(config, config_path.string());
  const ModelSpec spec = with_context(config_path.string(), [&] {
    ModelSpec read = rules.read_config(
        reader, [&](std::string_view name) { return lookup(std::string(name)).tensor != nullptr; });
    reader.finish(options.allow_unknown_keys);
    return read;
  });
  Program program = with_context(config_path.string(), [&] { return build_program(spec); });
  std::set<std::string> used;
  sources = collect_sources(
      program, rules, lookup, [](const WeightPlace& place) { return fill(place.row->hf, place); },
      folder->path(), used);
  ignored = check_leftovers(folder->tensors(), used, rules, folder->path());
  notes = folder->warnings();
  file_end_ids = end_ids_of(config);
  has_tokenizer = fs::exists(path / "tokenizer.json");
  bound = with_context(folder->path(),
                       [&] { return std::make_shared<BoundProgram>(std::move(program), sources); });
}

namespace {

void check_gguf_keys(const GgufFile& file, const Family& family, std::string_view arch) {
  const std::string prefix = std::string(arch) + ".";
  std::string unknown;
  for (const GgufEntry& entry : file.metadata()) {
    if (!entry.key.starts_with(prefix)) continue;
    const std::string_view key = entry.key.substr(prefix.size());
    const auto in = [&](const std::vector<std::string_view>& list) {
      return std::find(list.begin(), list.end(), key) != list.end();
    };
    if (!in(family.used_gguf_keys) && !in(family.ignored_gguf_keys)) {
      unknown += (unknown.empty() ? "" : ", ") + std::string(entry.key);
    }
  }
  if (!unknown.empty()) {
    throw bad_input("metadata keys", "only keys that are used or known to be harmless", unknown)
        .in(file.path());
  }
}

}  // namespace

void Model::Impl::load_gguf() {
  const auto file = std::make_shared<GgufFile>(GgufFile::open(path));
  const std::string_view arch = file->need_string("general.architecture");
  const Family* rules = nullptr;
  for (const Family& candidate : families()) {
    const auto& archs = candidate.gguf_archs;
    if (std::find(archs.begin(), archs.end(), arch) != archs.end()) rules = &candidate;
  }
  if (rules == nullptr) {
    throw bad_input("general.architecture", "one of " + list_families(true), std::string(arch))
        .in(path.string());
  }
  family = rules->name;
  if (const int64_t parts = file->get_int("split.count").value_or(1); parts > 1) {
    throw bad_input("split.count", "a file that holds the whole model",
                    "one of " + std::to_string(parts) + " parts")
        .in(path.string());
  }
  check_gguf_keys(*file, *rules, arch);
  const ModelSpec spec = rules->read_gguf(*file);
  Program program = with_context(path.string(), [&] { return build_program(spec); });
  std::set<std::string> used;
  const auto lookup = [&](const std::string& name) -> Found {
    return {file->find(name), file->storage()};
  };
  sources = collect_sources(
      program, *rules, lookup,
      [](const WeightPlace& place) { return fill(place.row->gguf, place); }, path.string(), used);
  for (auto& [name, source] : sources) {
    const WeightPlace place = find_place(*rules, name);
    if (place.row->gguf_rows == RowOrder::kAsStored) continue;
    const AttentionSpec& attention = spec.stack.blocks[static_cast<size_t>(place.layer)].attention;
    source.row_order = unpermuted_rows(
        place.row->gguf_rows == RowOrder::kQueryPairs ? attention.heads : attention.kv_heads,
        attention.head_width);
  }
  std::vector<const StoredTensor*> tensors;
  for (const StoredTensor& tensor : file->tensors()) tensors.push_back(&tensor);
  ignored = check_leftovers(tensors, used, *rules, path.string());
  notes = file->warnings();
  if (const auto eos = file->get_int("tokenizer.ggml.eos_token_id")) file_end_ids = {*eos};
  has_tokenizer = file->has("tokenizer.ggml.model");
  bound = with_context(path.string(),
                       [&] { return std::make_shared<BoundProgram>(std::move(program), sources); });
}

Model Model::load(const fs::path& path, const LoadOptions& options) {
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  std::error_code status;
  if (!fs::exists(path, status)) {
    throw bad_input("model", "a folder with config.json or a .gguf file", "no such file")
        .in(path.string());
  }
  if (fs::is_directory(path)) {
    impl->load_folder(options);
  } else {
    impl->load_gguf();
  }
  if (options.skip_tokenizer) impl->has_tokenizer = false;
  Model model;
  model.impl_ = std::move(impl);
  return model;
}

const std::string& Model::family() const { return impl_->family; }
const fs::path& Model::path() const { return impl_->path; }
const std::shared_ptr<const BoundProgram>& Model::bound() const { return impl_->bound; }
const WeightSources& Model::weights() const { return impl_->sources; }
bool Model::has_tokenizer() const { return impl_->has_tokenizer; }
const std::vector<std::string>& Model::ignored_weights() const { return impl_->ignored; }
const std::vector<std::string>& Model::notes() const { return impl_->notes; }

std::vector<float> Model::forward(std::span<const int64_t> tokens, Compute compute,
                                  int threads) const {
  Session session(bound(), {.compute = compute, .threads = threads});
  const SequenceInput input{.sequence = session.add_sequence(),
                            .tokens = {tokens.begin(), tokens.end()}};
  const std::vector<double> rows = session.forward_all({&input, 1});
  return {rows.begin(), rows.end()};
}

void Model::trace(std::span<const int64_t> tokens, std::vector<SiteId> sites, const TraceSink& sink,
                  Compute compute, int threads) const {
  Session session(bound(), {.compute = compute, .threads = threads, .sites = std::move(sites)});
  const SequenceInput input{.sequence = session.add_sequence(),
                            .tokens = {tokens.begin(), tokens.end()}};
  session.forward_all({&input, 1}, sink);
}

const Tokenizer& Model::tokenizer() const {
  if (!impl_->has_tokenizer) {
    throw usage_error("tokenizer", "tokenizer files beside the weights", "none")
        .in(impl_->path.string())
        .hint("give the ids with --tokens");
  }
  std::call_once(impl_->tokenizer_once, [&] {
    impl_->tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(impl_->path));
  });
  return *impl_->tokenizer;
}

const std::vector<int64_t>& Model::end_ids() const {
  std::call_once(impl_->end_ids_once, [&] {
    std::set<int64_t> ids(impl_->file_end_ids.begin(), impl_->file_end_ids.end());
    if (impl_->has_tokenizer) {
      try {
        const auto& more = tokenizer().end_ids();
        ids.insert(more.begin(), more.end());
      } catch (const Error&) {
        // A tokenizer that cannot be read is reported when text is asked for.
      }
    }
    impl_->end_ids.assign(ids.begin(), ids.end());
  });
  return impl_->end_ids;
}

std::vector<std::string> known_families() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.emplace_back(family.name);
  return names;
}

}  // namespace mainstem
