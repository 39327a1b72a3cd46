#pragma once

#include <string>

#include "mainstem/activation.h"
#include "models/config_reader.h"

namespace mainstem {

/// Reads an activation by the names of transformers' ACT2FN; `fallback` is the class default.
Activation read_activation(ConfigReader& config, std::string_view key, const std::string& fallback);

}  // namespace mainstem
