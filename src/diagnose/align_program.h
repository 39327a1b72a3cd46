#pragma once

#include <memory>
#include <vector>

#include "mainstem/model.h"

namespace mainstem {

/// The program up to the last step that makes a wanted value.
Program cut_behind(const Program& program, const std::vector<ValueId>& wanted);

}  // namespace mainstem
