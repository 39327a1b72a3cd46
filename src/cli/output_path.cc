#include "cli/output_path.h"

#include <system_error>

#include "mainstem/error.h"

namespace mainstem::cli {

void expect_no_model_file(const std::string& path, const Model& model) {
  for (const std::filesystem::path& file : model.files()) {
    std::error_code error;  // a path that does not exist yet is nobody's file
    if (!std::filesystem::equivalent(path, file, error) || error) continue;
    throw usage_error("--out", "another file than those of the model", file.string()).in(path);
  }
}

}  // namespace mainstem::cli
