#pragma once

// What the tokenizer tests share: golden files, and GGUF files made from a tokenizer.json.

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/gguf_builder.h"
#include "io/test_files.h"

namespace mainstem::test {

inline nlohmann::json read_golden(const std::string& name) {
  std::ifstream file(std::string(MAINSTEM_TEST_DATA) + "/golden/" + name);
  return nlohmann::json::parse(file);
}

/// The tokenizer part of a GGUF file; tests change single fields and see what the reader says.
struct GgufTokenizer {
  std::string model = "gpt2";
  std::string pre = "gpt-2";  ///< empty: no such key
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
  std::vector<std::pair<std::string, uint32_t>> ids;  ///< "bos_token_id", …
  std::vector<std::pair<std::string, bool>> flags;    ///< "add_bos_token", …

  /// The vocabulary of golden/tokenizers/base.json, as make_gguf_tokenizers.py writes it.
  static GgufTokenizer base() {
    const nlohmann::json file = read_golden("tokenizers/base.json");
    GgufTokenizer result;
    result.tokens.resize(file["model"]["vocab"].size());
    for (const auto& [token, id] : file["model"]["vocab"].items()) {
      result.tokens.at(id.get<size_t>()) = token;
    }
    result.types.assign(result.tokens.size(), 1);
    for (const auto& token : file["added_tokens"]) result.types.at(token["id"].get<size_t>()) = 3;
    for (const auto& pair : file["model"]["merges"]) {
      result.merges.push_back(pair[0].get<std::string>() + " " + pair[1].get<std::string>());
    }
    result.ids = {{"bos_token_id", 0}, {"eos_token_id", 1}};
    return result;
  }

  GgufBuilder builder() const {
    const auto texts = [](const std::vector<std::string>& values) {
      Bytes bytes;
      for (const std::string& value : values) bytes.string(value);
      return bytes;
    };
    Bytes type_bytes;
    for (const int32_t type : types) type_bytes.u32(static_cast<uint32_t>(type));
    GgufBuilder out;
    out.text("general.architecture", "llama").text("tokenizer.ggml.model", model);
    if (!pre.empty()) out.text("tokenizer.ggml.pre", pre);
    out.array("tokenizer.ggml.tokens", GgufType::kString, tokens.size(), texts(tokens));
    if (!types.empty()) {
      out.array("tokenizer.ggml.token_type", GgufType::kI32, types.size(), type_bytes);
    }
    out.array("tokenizer.ggml.merges", GgufType::kString, merges.size(), texts(merges));
    for (const auto& [name, id] : ids) out.u32("tokenizer.ggml." + name, id);
    for (const auto& [name, flag] : flags) {
      out.entry("tokenizer.ggml." + name, GgufType::kBool,
                Bytes().raw(std::string(1, flag ? '\1' : '\0')));
    }
    return out;
  }
};

}  // namespace mainstem::test
