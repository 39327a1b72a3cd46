#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "mainstem/model.h"
#include "mainstem/stored_tensor.h"
#include "models/families/family.h"
#include "models/generation_config.h"

namespace mainstem {

/// A model as its files say it, before anything is packed.
struct LoadedFiles {
  std::filesystem::path words;  ///< the folder, or the GGUF file (its first part) with the metadata
  const Family* family = nullptr;
  Program program;
  WeightSources sources;
  std::vector<std::filesystem::path> files;  ///< what was read, or is when somebody asks for it
  std::vector<std::string> ignored, notes;
  GenerationRules generation;  ///< what config or metadata say themselves
  bool has_tokenizer = false;
};

/// A folder with config.json and safetensors.
/// The family that "model_type" or "general.architecture" names.
const Family& family_of(const nlohmann::json& config, const std::string& file);
const Family& family_of(const GgufFile& file);
/// What a file's words say of the model, before any weight is looked at. Errors: words that are
/// missing, unknown or cannot be.
ModelSpec read_spec(const Family& family, ConfigReader& config, const HasTensor& has_tensor,
                    const std::vector<std::string>& allow_unknown_keys = {});
ModelSpec read_spec(const Family& family, GgufWords& words);

LoadedFiles load_folder(const std::filesystem::path& path, const LoadOptions& options);
/// A .gguf file, or one part of a split one.
LoadedFiles load_gguf(const std::filesystem::path& path);

/// A stored tensor and what keeps its bytes mapped.
struct FoundTensor {
  const StoredTensor* tensor = nullptr;
  std::shared_ptr<const void> storage;
};
using FindTensor = std::function<FoundTensor(const std::string&)>;

/// Finds every weight of the program in the files; `used` collects the stored names.
WeightSources find_weights(const Program& program, const Family& family, bool gguf,
                           const FindTensor& find, const std::string& file,
                           std::set<std::string>& used);

/// Names of the tensors that nobody used and that are known to mean nothing; Error that lists the
/// others.
std::vector<std::string> unused_tensors(const std::vector<const StoredTensor*>& tensors,
                                        const std::set<std::string>& used, const Family& family,
                                        const std::string& file);

/// The model_types, or the GGUF architectures, of all families.
std::string list_families(bool gguf);

}  // namespace mainstem
