#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "mainstem/gguf.h"

namespace mainstem {

/// A GGUF file, or all parts of a split one ("NAME-00001-of-00003.gguf", any of them given). The
/// first part holds the model's words. Errors: a part that is missing or of another model, counts
/// that do not agree.
class GgufParts {
 public:
  static GgufParts open(const std::filesystem::path& path);

  const GgufFile& first() const { return *files_.front(); }
  const std::vector<std::shared_ptr<const GgufFile>>& files() const { return files_; }
  /// The tensor and the part that holds it; null where there is none.
  std::pair<const StoredTensor*, std::shared_ptr<const GgufFile>> find(std::string_view name) const;
  std::vector<const StoredTensor*> tensors() const;
  std::vector<std::string> warnings() const;

 private:
  std::vector<std::shared_ptr<const GgufFile>> files_;
};

}  // namespace mainstem
