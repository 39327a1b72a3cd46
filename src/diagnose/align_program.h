#pragma once

#include <memory>
#include <vector>

#include "mainstem/model.h"

namespace mainstem {

/// The program up to the last step that makes a wanted value.
Program cut_behind(const Program& program, const std::vector<ValueId>& wanted);

/// The program from a value on, which becomes its input: rows that the caller gives. Nothing may
/// read what lies before it but through it, so it is the stream between two blocks.
Program cut_before(const Program& program, ValueId first);

}  // namespace mainstem
