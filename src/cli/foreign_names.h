#pragma once

#include <string>
#include <vector>

#include "mainstem/program.h"

namespace mainstem::cli {

/// Whose names a trace bears.
enum class Naming {
  kMainstem,
  kHuggingFace,      ///< module paths of transformers; an input has ".input" behind the path
  kTransformerLens,  ///< hooks of TransformerLens 2
  kGgml,  ///< nodes of llama.cpp; a node that bears its name again has its op: Qcur-0#ROPE
};

/// The name of a value in another program's world; ours (`own`) where that has none for it.
std::string foreign_name(Naming naming, const Program& program, ValueId value, const SiteId& own);

}  // namespace mainstem::cli
