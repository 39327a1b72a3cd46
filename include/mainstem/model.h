#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainstem/chat.h"
#include "mainstem/session.h"
#include "mainstem/tokenizer.h"

namespace mainstem {

struct LoadOptions {
  /// Config keys that nobody knows are an error unless named here.
  std::vector<std::string> allow_unknown_keys;
  /// Load spec and weights only.
  bool skip_tokenizer = false;
};

/// A model as its files describe it: a folder with config.json and safetensors (one file or
/// shards), or a .gguf file. Weights stay in the mapped file; nothing is copied before the first
/// session packs them.
///
///     auto model = mainstem::Model::load("SmolLM2-135M-Instruct.Q4_1.gguf");
///     mainstem::Session session(model.bound(), {.compute = mainstem::Compute::kFast});
///     mainstem::SequenceInput input{.sequence = session.add_sequence(),
///                                   .tokens = model.tokenizer().encode("Hello")};
///     std::vector<float> logits = session.forward({&input, 1});
class Model {
 public:
  /// Errors (bad input): unknown architecture (lists the known ones), a config key that is neither
  /// used nor known to be harmless, a weight that is missing, left over or of the wrong shape.
  static Model load(const std::filesystem::path& path, const LoadOptions& options = {});

  const std::string& family() const;  ///< "llama"
  const std::filesystem::path& path() const;
  const Program& program() const { return bound()->program(); }
  const ModelSpec& spec() const { return program().spec; }
  const std::shared_ptr<const BoundProgram>& bound() const;
  const WeightSources& weights() const;

  /// Logits [T,V] of one sequence, in float32. For many passes keep a Session.
  std::vector<float> forward(std::span<const int64_t> tokens, Compute compute = Compute::kF32,
                             int threads = 0) const;
  /// Runs one sequence and hands the wanted values to the sink, in order.
  void trace(std::span<const int64_t> tokens, std::vector<SiteId> sites, const TraceSink& sink,
             Compute compute = Compute::kF32, int threads = 0) const;

  bool has_tokenizer() const;
  /// A usage Error where the files hold none ("use --tokens").
  const Tokenizer& tokenizer() const;
  /// Does the model have a template for conversations (of this name)?
  bool has_chat_template(std::string_view name = "default") const;
  /// A usage Error where the files hold none.
  ChatTemplate chat_template(std::string_view name = "default") const;
  /// Every id that ends an answer; empty where the files name none.
  const std::vector<int64_t>& end_ids() const;
  /// Encoder-decoder models: the token that a translation starts with (decoder_start_token_id of
  /// generation_config.json or config.json, else their bos_token_id).
  std::optional<int64_t> decoder_start_id() const;
  /// Sequences of ids that the files forbid in a generated text (bad_words_ids): Marian's padding
  /// token. See forbid_words().
  const std::vector<std::vector<int64_t>>& bad_words() const;
  /// Weights of the file that the program does not need, known to be harmless.
  const std::vector<std::string>& ignored_weights() const;
  /// Notes about the files worth telling a user (which rules were chosen, odd values).
  const std::vector<std::string>& notes() const;
  /// Every file of the model: weights, and in a folder config, tokenizer and templates.
  const std::vector<std::filesystem::path>& files() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Names of the families that load() knows, for messages.
std::vector<std::string> known_families();

}  // namespace mainstem
