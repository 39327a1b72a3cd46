#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mainstem/program.h"

namespace mainstem {

/// Whose names the values of a model bear.
enum class Naming : uint8_t {
  kMainstem,
  kHuggingFace,      ///< module paths of transformers; an input has ".input" behind the path
  kTransformerLens,  ///< hooks of TransformerLens 2
  kGgml,  ///< nodes of llama.cpp; a node that bears its name again has its op: Qcur-0#ROPE
};

/// The name of a value in another program's world, for a model of the family (as Model::family()
/// calls it; names of a family that has none of its own are Llama's). Ours (`own`) where that
/// world has no name for the value, or one that does not tell the blocks apart.
std::string foreign_name(Naming naming, const Program& program, std::string_view family,
                         ValueId value, const SiteId& own);

/// What all names of a block's steps begin with there, "transformer.h.0" for instance. Empty where
/// the world has none: of a site outside the blocks, and of families it does not have.
std::string foreign_block(Naming naming, const Program& program, std::string_view family,
                          const SiteId& site);

}  // namespace mainstem
