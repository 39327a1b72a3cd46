#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/model.h"

namespace mainstem {

/// How the rows [T,D] of the last value of a text become one vector [D].
enum class Pooling : uint8_t {
  kMean,         ///< the mean over all tokens
  kCls,          ///< the first token's row
  kMax,          ///< the largest of each channel
  kMeanSqrtLen,  ///< the sum over all tokens, divided by √T
};
std::string_view name(Pooling pooling);  ///< "mean", "cls", "max", "mean-sqrt-length"

/// How a model's files want a text embedded.
struct EmbeddingRules {
  Pooling pooling = Pooling::kMean;
  bool normalize = false;   ///< divide the vector by its length ‖x‖₂
  int64_t max_tokens = 0;   ///< longer texts are cut, begin and end tokens included; 0: never
  std::string prompt = {};  ///< put before every text
  /// Where pooling and normalize come from; empty where the files say nothing and the values above
  /// are the defaults.
  std::string source = {};
};

/// What the files say: modules.json with 1_Pooling/config.json and 2_Normalize as
/// sentence-transformers writes them, sentence_bert_config.json and tokenizer_config.json for the
/// length, config_sentence_transformers.json for a default prompt; of a .gguf file its
/// pooling_type. Error (bad input) for a module or a pooling that is none of the above, such as a
/// Dense layer.
EmbeddingRules read_embedding_rules(const Model& model);

struct EmbedOptions {
  EmbeddingRules rules;
  Compute compute = Compute::kF32;
  int threads = 0;  ///< 0: all that this process may use
  /// Most tokens of one pass (one text at least). Sequences of one pass are not padded.
  int64_t pass_tokens = 2048;
  /// Called after every pass. May throw to stop.
  std::function<void(int64_t done, int64_t total)> progress = {};
};

/// One vector [D] for each sequence of ids [T], from the last value of an encoder's stack: the last
/// block's output, or the last norm's where there is one; a head is not run. Pooled in double over
/// all T tokens, begin and end tokens included (Reimers & Gurevych, arXiv:1908.10084 §3). A vector
/// of zeros is not normalised. NaN gives NaN.
///
/// Usage Errors: a model that is no encoder (its tokens do not see later ones, or it is an
/// encoder-decoder), an empty sequence, ids outside the vocabulary, more tokens than the model has
/// positions.
///
///     auto model = mainstem::Model::load("all-MiniLM-L6-v2");
///     const auto rules = mainstem::read_embedding_rules(model);
///     std::vector<std::vector<int64_t>> texts;
///     texts.push_back(mainstem::embedding_ids(model, "A heron.", rules));
///     auto vectors = mainstem::embed(model, texts, {.rules = rules});
std::vector<std::vector<double>> embed(const Model& model,
                                       std::span<const std::vector<int64_t>> sequences,
                                       const EmbedOptions& options);

/// The ids of a text, with the model's begin and end tokens and the rules' prompt, cut to
/// rules.max_tokens between them.
std::vector<int64_t> embedding_ids(const Model& model, std::string_view text,
                                   const EmbeddingRules& rules);

}  // namespace mainstem
