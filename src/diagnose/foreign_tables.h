#pragma once

#include <span>
#include <string_view>

#include "mainstem/sites.h"

// What other programs call the steps, as data.

namespace mainstem {

/// In a name `*` stands for the path of the block and `%` for its number. An empty name: none.
struct SiteName {
  Site site;
  std::string_view name;
};
using SiteNames = std::span<const SiteName>;

/// A family's names. What is not in a list is called as in the lists that all families share.
struct FamilyNames {
  std::string_view family;
  std::string_view block = "model.layers.%";  ///< path in transformers; `@`: encoder or decoder
  SiteNames hugging_face = {};
  SiteNames transformer_lens = {};
  SiteNames ggml = {};
  SiteNames bridge = {};  ///< components of TransformerLens 3: `.hook_in` and `.hook_out` follow
  SiteNames more_hooks = {};    ///< what else hooks of TransformerLens 2 and 3 hold the value
  SiteNames more_nodes = {};    ///< what else llama.cpp calls it, or called it in older versions
  bool in_hugging_face = true;  ///< transformers has the family
  bool in_transformer_lens = true;  ///< TransformerLens has the family under names like Llama's
  bool in_ggml = true;              ///< llama.cpp runs it
  bool fused_qkv = false;           ///< llama.cpp cuts q, k and v out of one product
};

/// The names that all families share.
const FamilyNames& shared_names();
/// nullptr: the family has no names of its own.
const FamilyNames* family_names(std::string_view family);

}  // namespace mainstem
