#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem::tokenizer {

/// tokenizer.json, with its two long lists taken out of the tree: they hold most of the file's
/// bytes, and a tree of them would cost most of the loading time.
struct TokenizerJson {
  struct Text {
    uint32_t offset, length;
  };
  struct Entry {
    Text text;
    int64_t id;
    double score;  ///< of a Unigram model, whose ids are the places in its list
  };
  struct Merge {
    Text left, right;
  };

  nlohmann::json tree;  ///< without model.vocab and model.merges
  std::string arena;    ///< the texts of both lists
  std::vector<Entry> vocab;
  std::vector<Merge> merges;
  bool has_scores = false;  ///< model.vocab was a list of [text, score]

  std::string_view view(const Text& text) const {
    return std::string_view(arena).substr(text.offset, text.length);
  }
};

/// Merges may be written "a b" or ["a", "b"]. Duplicate keys are an Error.
TokenizerJson read_tokenizer_json(std::string_view text);

}  // namespace mainstem::tokenizer
