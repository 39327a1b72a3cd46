#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mainstem/rng.h"

namespace mainstem {

/// How the next token is chosen. Every field left alone means "greedy, no filter".
struct SamplingOptions {
  /// 0: greedy, the largest logit; of the rest only the penalty has a say. Else
  /// logits / temperature.
  double temperature = 0;
  /// Keep the k largest logits (and what equals the k-th). 0: all.
  int64_t top_k = 0;
  /// Keep the most probable tokens until their sum reaches top_p. 1: all.
  double top_p = 1;
  /// Keep tokens at least min_p times as probable as the most probable one. 0: all.
  double min_p = 0;
  /// For tokens of the history: positive logits are divided by it, negative ones multiplied.
  double repeat_penalty = 1;
  /// How many of the last history tokens the penalty looks at; unset: all, as transformers does.
  std::optional<int64_t> repeat_last_n = {};
  uint64_t seed = 0;
};

/// Error(kUsage) that names the first option out of range: temperature >= 0, top_k >= 0,
/// top_p in (0, 1], min_p in [0, 1], repeat_penalty > 0, repeat_last_n >= 0, all finite.
void validate(const SamplingOptions& options);

/// Draws tokens from logits, in the order of transformers 5 (generation/utils.py,
/// _get_logits_processor): repetition penalty, temperature, top-k, top-p, min-p, softmax, draw.
/// The draw walks the kept tokens by id (torch.multinomial draws otherwise). Arithmetic in float64.
/// The same seed, logits and history give the same ids on every machine whose exp() rounds alike;
/// one uniform number is drawn per sampled token, none when greedy.
///
///     mainstem::Sampler sampler({.temperature = 0.7, .top_p = 0.9, .seed = 1});
///     int64_t next = sampler.sample(logits, ids);
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options = {});

  /// logits [V], history: the ids so far (prompt included). Equal logits: the lowest id wins.
  /// Error(kBadInput) that names the id for a logit of NaN or +Inf; -Inf means "never" and is an
  /// error only if all are. Ids of the history outside [0, V) are an Error(kUsage).
  int64_t sample(std::span<const float> logits, std::span<const int64_t> history = {});

  const SamplingOptions& options() const { return options_; }

 private:
  struct Candidate {
    double logit;
    int64_t id;
  };

  void load(std::span<const float> logits);
  void penalise(std::span<const int64_t> history);
  void keep_top_k();
  void keep_by_probability();
  int64_t draw();

  SamplingOptions options_;
  Generator generator_;
  std::vector<Candidate> candidates_;  // kept between calls to save the allocation
  std::vector<char> seen_;
};

/// Gives -Inf to every token that would end one of `words` behind `history`; a word of one token
/// is forbidden everywhere. logits [V]; ids outside [0, V) are left alone. As transformers'
/// NoBadWordsLogitsProcessor does, before any other filter.
void forbid_words(std::span<const std::vector<int64_t>> words, std::span<const int64_t> history,
                  std::span<float> logits);

}  // namespace mainstem
