#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "io/json.h"
#include "io/text.h"
#include "mainstem/safetensors.h"

namespace mainstem {
namespace {

namespace fs = std::filesystem;

constexpr char kSingleName[] = "model.safetensors";
constexpr char kIndexName[] = "model.safetensors.index.json";

// The first few of a list, so that a message stays readable.
std::string some_of(const std::vector<std::string>& items, size_t most = 10) {
  std::string result;
  for (size_t i = 0; i < items.size() && i < most; ++i) {
    result += (i == 0 ? "" : ", ") + items[i];
  }
  if (items.size() > most) result += " and " + std::to_string(items.size() - most) + " more";
  return result;
}

std::vector<std::string> list_files(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw bad_input("model folder", "a folder",
                    fs::exists(folder, error) ? "something else" : "nothing of that name");
  }
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) names.push_back(at->path().filename().string());
  }
  if (error) throw bad_input("model folder", "a readable folder", error.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_weight_file(std::string_view name) {
  for (const std::string_view suffix : {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx",
                                        ".gguf", ".npz", ".safetensors"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

Error no_weights(const std::vector<std::string>& names) {
  std::vector<std::string> weights;
  std::copy_if(names.begin(), names.end(), std::back_inserter(weights), is_weight_file);
  std::string got = names.empty() ? "an empty folder" : "only " + some_of(names);
  if (!weights.empty()) got = "only " + some_of(weights);
  return bad_input("weights", "model.safetensors or its shards", got)
      .hint("convert the weights to safetensors, or give the path of a .gguf file");
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

// tensor -> file, as the index states it.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const nlohmann::json index = read_json_file(path);
  return with_context(path.string(), [&] {
    const auto at = index.is_object() ? index.find("weight_map") : index.end();
    if (!index.is_object() || at == index.end() || !at->is_object()) {
      throw bad_input("index", "an object weight_map", "none");
    }
    std::map<std::string, std::string> files;
    for (const auto& [tensor, file] : at->items()) {
      if (!file.is_string()) {
        throw bad_input("weight_map", "file names", file.type_name()).in(quote(tensor));
      }
      const auto& text = file.get_ref<const std::string&>();
      if (!is_plain_name(text)) {
        throw bad_input("file name", "a name without path parts", quote(text)).in(quote(tensor));
      }
      files.emplace(tensor, text);
    }
    return files;
  });
}

// All differences between index, directory and files, or nothing.
class IndexComparison {
 public:
  explicit IndexComparison(const std::map<std::string, std::string>& index) : index_(index) {}

  void missing_file(const std::string& name) { add(missing_files_, name); }

  void check_file(const SafetensorsFile& file, const std::string& name) {
    for (const StoredTensor& tensor : file.tensors()) {
      const auto at = index_.find(tensor.name);
      if (at == index_.end()) {
        add(unlisted_, quote(tensor.name) + " (" + name + ")");
      } else if (at->second != name) {
        add(elsewhere_, quote(tensor.name) + " (index: " + at->second + ", found in " + name + ")");
      } else {
        found_.insert(tensor.name);
      }
    }
  }

  void finish() {
    std::vector<std::string> absent;
    for (const auto& [tensor, file] : index_) {
      const bool file_is_missing =
          std::find(missing_files_.begin(), missing_files_.end(), file) != missing_files_.end();
      if (!file_is_missing && !found_.contains(tensor)) {
        absent.push_back(quote(tensor) + " (" + file + ")");
      }
    }
    std::string text;
    const auto tell = [&](const char* what, const std::vector<std::string>& items) {
      if (items.empty()) return;
      text += (text.empty() ? "" : "; ") + std::string(what) + ": " + some_of(items);
    };
    tell("files missing", missing_files_);
    tell("tensors missing in their file", absent);
    tell("tensors in another file", elsewhere_);
    tell("tensors not in the index", unlisted_);
    if (text.empty()) return;
    throw bad_input("shards", "index, folder and files that agree", text)
        .in(kIndexName)
        .hint("fetch the folder again, all files from one revision");
  }

 private:
  static void add(std::vector<std::string>& list, std::string item) {
    list.push_back(std::move(item));
  }

  const std::map<std::string, std::string>& index_;
  std::set<std::string> found_;
  std::vector<std::string> missing_files_, elsewhere_, unlisted_;
};

}  // namespace

SafetensorsFolder open_safetensors_folder(const fs::path& folder,
                                          const SafetensorsOptions& options) {
  SafetensorsFolder result;
  result.path_ = folder.string();
  const std::vector<std::string> names =
      with_context(result.path_, [&] { return list_files(folder); });
  const auto present = [&](const std::string& name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  const auto add = [&](const std::string& name) -> const SafetensorsFile& {
    SafetensorsFile file = SafetensorsFile::open(folder / name, options);
    const auto& warnings = file.warnings();
    result.warnings_.insert(result.warnings_.end(), warnings.begin(), warnings.end());
    return result.files_.emplace_back(std::move(file));
  };

  if (present(kSingleName)) {
    add(kSingleName);
    if (present(kIndexName)) {
      result.warnings_.push_back("shards: model.safetensors is read, the index is not; in " +
                                 result.path_);
    }
  } else if (present(kIndexName)) {
    const auto index = read_index(folder / kIndexName);
    std::set<std::string> wanted;
    for (const auto& [tensor, file] : index) wanted.insert(file);
    IndexComparison comparison(index);
    for (const std::string& name : wanted) {
      if (present(name)) {
        comparison.check_file(add(name), name);
      } else {
        comparison.missing_file(name);
      }
    }
    with_context(result.path_, [&] { comparison.finish(); });
    std::vector<std::string> surplus;
    for (const std::string& name : names) {
      if (name.ends_with(".safetensors") && !wanted.contains(name)) surplus.push_back(name);
    }
    if (!surplus.empty()) {
      result.warnings_.push_back("shards: not in the index and not read: " + some_of(surplus) +
                                 "; in " + result.path_);
    }
  } else {
    std::vector<std::string> found;
    for (const std::string& name : names) {
      if (name.ends_with(".safetensors")) found.push_back(name);
    }
    if (found.empty()) throw no_weights(names).in(result.path_);
    if (found.size() > 1) {
      throw bad_input("shards", kIndexName, "none, and the files " + some_of(found))
          .in(result.path_);
    }
    add(found[0]);
  }
  with_context(result.path_, [&] { result.collect(); });
  return result;
}

void SafetensorsFolder::collect() {
  for (const SafetensorsFile& file : files_) {
    for (const StoredTensor& tensor : file.tensors()) tensors_.push_back(&tensor);
  }
  by_name_ = tensors_;
  std::sort(by_name_.begin(), by_name_.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
}

const StoredTensor* SafetensorsFolder::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [](const StoredTensor* tensor, std::string_view key) { return tensor->name < key; });
  return at != by_name_.end() && (*at)->name == name ? *at : nullptr;
}

TensorView SafetensorsFolder::view(std::string_view name) const {
  if (const StoredTensor* tensor = find(name)) return tensor->view();
  throw bad_input("tensor", "a tensor " + quote(name), "none of that name").in(path_);
}

}  // namespace mainstem
