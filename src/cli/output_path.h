#pragma once

#include <string>

#include "mainstem/model.h"

namespace mainstem::cli {

/// A usage Error where writing to `path` would replace a file of the model, under whatever name:
/// hard and symbolic links count. Its weights are still mapped, and would be gone afterwards.
void expect_no_model_file(const std::string& path, const Model& model);

}  // namespace mainstem::cli
