#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "mainstem/model.h"

namespace mainstem {

struct ScoreOptions {
  /// Tokens of a window, its begin tokens included. 0: the model's context length.
  int64_t context = 0;
  Compute compute = Compute::kF32;
  int threads = 0;  ///< 0: all that this process may use
  /// Most rows [V] of logits that exist at once. 0: as many as fit into 32 MiB as float32, at most
  /// 512.
  int64_t rows = 0;
  /// Called after every part with the text's tokens read so far and all of them. May throw to stop.
  std::function<void(int64_t done, int64_t total)> progress = {};
  const std::atomic<bool>* cancel = nullptr;  ///< as in SessionOptions
};

/// How well a model predicts a text.
struct Score {
  int64_t tokens = 0;   ///< predicted ones
  int64_t windows = 0;  ///< that predicted at least one
  int64_t context = 0;  ///< tokens of a full window
  double nll = 0;       ///< mean of -ln p(token | tokens before it in its window), in nats
  double perplexity() const { return std::exp(nll); }
};

/// Mean negative log-likelihood of `tokens` [T] under a decoder.
///
/// The tokens are cut into windows without overlap; every window starts with `prefix` (the begin
/// tokens of the model, or nothing) and is read from an empty cache at position 0. Predicted is
/// every token that has one before it in its window: all of them where there is a prefix, which
/// itself is never predicted, else all but the first of each window. The last window may be
/// shorter. A window goes through the session in parts, so the logits [T,V] never exist as a
/// whole; ln p = x_i - max(x) - ln Σ exp(x_j - max(x)), in double. NaN in the logits gives NaN.
///
/// Usage Errors: a model that is no decoder with a head; a context that is unknown, longer than
/// the model's, or too short to predict anything; fewer tokens than one prediction needs; a window
/// whose rotary scaling wants it in one pass, where its logits would take more than 2 GiB.
///
///     auto model = mainstem::Model::load("SmolLM2-135M-Instruct.Q4_1.gguf");
///     mainstem::Score score = mainstem::score(model, "The quick brown fox jumps.");
///     std::cout << score.perplexity() << " over " << score.tokens << " tokens\n";
Score score(const std::shared_ptr<const BoundProgram>& bound, std::span<const int64_t> tokens,
            std::span<const int64_t> prefix, const ScoreOptions& options = {});

/// A text: encoded without begin and end tokens (control tokens in it are recognised), each window
/// starting with the begin tokens that the model's files put before a text. No end token is added
/// or predicted.
Score score(const Model& model, std::string_view text, const ScoreOptions& options = {});

/// -ln softmax(logits)[target], as above; `logits` [V].
double negative_log_likelihood(std::span<const double> logits, int64_t target);

}  // namespace mainstem
