#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/gguf.h"
#include "mainstem/spec.h"
#include "models/config_reader.h"

// A family is data: two readers from a file's words to a spec, and rows of weight names. No
// family has forward code.

namespace mainstem {

/// How a GGUF converter changed the rows of a matrix; undone at load.
enum class RowOrder : uint8_t {
  kAsStored,
  kQueryPairs,  ///< q rows permuted so that pairs (2j, 2j+1) turn together
  kKeyPairs,    ///< the same for k, with the number of kv heads
};

/// One weight under its three names, without ".weight"/".bias". "{N}" stands for the block.
struct WeightRow {
  std::string_view own;
  std::string_view hf;
  std::string_view gguf;
  RowOrder gguf_rows = RowOrder::kAsStored;
};

/// What a family's reader may ask about the file beside its words.
using HasTensor = std::function<bool(std::string_view)>;

struct Family {
  std::string_view name;
  std::vector<std::string_view> model_types;  ///< of config.json
  std::vector<std::string_view> gguf_archs;   ///< of general.architecture
  ModelSpec (*read_config)(ConfigReader& config, const HasTensor& has_tensor);
  ModelSpec (*read_gguf)(const GgufFile& file);
  std::vector<WeightRow> rows;
  /// safetensors prefix that files written from the base class leave out.
  std::string_view base_prefix;
  /// Tensors that may be in a file and mean nothing: shell patterns.
  std::vector<std::string_view> ignored_tensors;
  /// Keys after "ARCH." that may be in a GGUF file and change nothing.
  std::vector<std::string_view> ignored_gguf_keys;
  /// Keys after "ARCH." that read_gguf reads.
  std::vector<std::string_view> used_gguf_keys;
};

std::span<const Family> families();

const Family& llama_family();

}  // namespace mainstem
