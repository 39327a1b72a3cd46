#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/spec.h"
#include "models/config_reader.h"
#include "models/gguf_words.h"

// A family is data: two readers from a file's words to a spec, and rows of weight names. No
// family has forward code. CONTRIBUTING.md says how to add one.

namespace mainstem {

/// Which rows of a stored matrix (or elements of a stored bias) a weight is. The part is known
/// from the weight's own name.
enum class RowLayout : uint8_t {
  kAll,
  kPairs,         ///< all; q or k permuted so that channels (2j, 2j+1) turn together
  kQkv,           ///< q, then k, then v
  kQkvPerGroup,   ///< per kv head: its H/K query heads, its key head, its value head
  kGateValue,     ///< the MLP's gate, then its value
  kQkvValueGate,  ///< q, k, v, then the MLP's value, then its gate
  kPerHead,       ///< one stored vector for each head, "{H}" in the name
};

struct Layout {
  RowLayout rows = RowLayout::kAll;
  bool transposed = false;  ///< matrices lie as [in, out]
};

/// One weight under its three names. `own` and the others stand for ".weight" and ".bias" alike;
/// an `own` that ends in one of the two has exact names beside it. "{N}" is the block, "{N+1}" one
/// more, "{L+1}" one more than there are blocks, "{H}" the head, "{S}" the suffix where it is not
/// simply appended; "a|b" are alternatives.
struct WeightRow {
  std::string own;
  std::string hf;
  std::string gguf = {};
  Layout hf_layout = {};
  Layout gguf_layout = {};
};

/// What a family's reader may ask about the file beside its words.
using HasTensor = std::function<bool(std::string_view)>;

/// What stands for "{encoder}" and the like in the rows of a family whose modules have no fixed
/// names.
using ModuleNames = std::map<std::string, std::string>;

struct Family {
  std::string_view name;
  std::vector<std::string_view> model_types = {};  ///< of config.json
  std::vector<std::string_view> gguf_archs = {};   ///< of general.architecture
  ModelSpec (*read_config)(ConfigReader& config, const HasTensor& has_tensor) = nullptr;
  ModelSpec (*read_gguf)(GgufWords& words) = nullptr;
  /// Where config.json says what the user's modules are called; else null.
  ModuleNames (*read_names)(ConfigReader& config) = nullptr;
  std::vector<WeightRow> rows = {};
  /// Prefixes of safetensors names that stand for each other: the first as the rows have it, then
  /// what files put in its place ("" where the base class wrote them).
  std::vector<std::string_view> prefixes = {};
  /// Tensors that may be in a file and mean nothing: shell patterns.
  std::vector<std::string_view> ignored_tensors = {};
};

/// One for each file in this folder that defines `Family NAME_family()`.
std::span<const Family> families();

}  // namespace mainstem
