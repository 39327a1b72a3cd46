#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

/// Names beside foreign_name()'s under which dumps hold a value.
enum class MoreNames : uint8_t {
  kBridge,  ///< paths of TransformerLens 3: `.hook_out` is the value
  kHooks,   ///< other hooks of TransformerLens
  kNodes,   ///< other nodes of llama.cpp
};
/// All of that kind for one name of a value. One name may stand for several values.
std::vector<std::string> more_names(MoreNames kind, std::string_view family, const SiteId& site);

}  // namespace mainstem
