#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainstem/arithmetic.h"
#include "mainstem/dump.h"
#include "mainstem/model.h"
#include "mainstem/sites.h"

namespace mainstem {

enum class DiffVerdict : uint8_t { kMatch, kDivergent, kIncomparable };
std::string_view name(DiffVerdict verdict);  ///< "match", "divergent", "incomparable"

enum class StepVerdict : uint8_t {
  kOk,         ///< the difference is round-off
  kPrecision,  ///< more than round-off, but what a lower precision makes
  kWrong,      ///< not explained by round-off: this step is wrong in itself
  kInherited,  ///< differs only because what it reads differs
  kUnknown,    ///< nothing to judge by
};
std::string_view name(StepVerdict verdict);  ///< "ok", "precision", "wrong", …

/// What to compare, and how.
struct DiffOptions {
  std::vector<int64_t> tokens = {};          ///< [T]: where the dump holds none
  std::vector<int64_t> decoder_tokens = {};  ///< of an encoder-decoder
  /// Their name → site, for names that nobody else knows; see parse_name_map().
  std::vector<std::pair<std::string, std::string>> names = {};
  /// What the user's arithmetic is meant to be. Else it is read from the values.
  std::optional<ArithmeticType> dtype = {};
  /// Blocks to load and judge, half-open; nothing of the others is read.
  std::optional<std::pair<int, int>> layers = {};
  int threads = 0;  ///< 0: all that this process may use
  /// Called again and again with the work done and all of it. May throw to stop.
  std::function<void(int64_t done, int64_t total)> progress = {};
  const std::atomic<bool>* cancel = nullptr;
};

/// Lines `their name = site`; empty lines and `#` comments are skipped. A `*` in the site stands
/// for every block, and one in the name for that block's number: `layer_*.query = blocks.*.q`.
/// Where the name has none, one tensor holds all blocks along its first axis. Errors (bad input)
/// name the line.
std::vector<std::pair<std::string, std::string>> parse_name_map(std::string_view text);

/// One value of the dump beside the reference's.
struct StepReport {
  SiteId site;
  std::string name;                ///< as the dump calls it
  std::optional<double> total;     ///< ‖y − y_ref‖₂ / ‖y_ref‖₂ against the reference's own run
  std::optional<double> local;     ///< the same against the reference step on the user's inputs
  std::optional<double> envelope;  ///< the largest `local` of sound implementations
  std::optional<double> ratio;     ///< local / envelope of all of it or of its worst row
  StepVerdict verdict = StepVerdict::kUnknown;
  std::vector<std::string> from;    ///< inputs taken from the dump
  std::vector<std::string> covers;  ///< steps judged together, since values between are missing
  // Against the reference step on the user's inputs.
  double max_difference = 0;
  std::vector<int64_t> max_index = {};  ///< where: [b, t, …]
  double cosine = 1;                    ///< of both wholes, against the reference's own run
  double ulps = 0;                      ///< largest difference in units of the dump's type
  std::vector<double> per_token = {};   ///< local error of each token, relative to the row
  std::vector<double> per_head = {};    ///< of each head, where there are heads
  std::vector<int64_t> first_inf = {}, first_nan = {};  ///< where; empty: there is none
};

/// How logits differ as predictions: means over the tokens.
struct LogitReport {
  double kl = 0;               ///< KL(reference ‖ user) in nats
  double top1 = 0, top5 = 0;   ///< share of tokens that agree; of the five best, mean overlap
  double smallest_margin = 0;  ///< between the reference's two best, over tokens that disagree
};

struct DiffReport {
  DiffVerdict verdict = DiffVerdict::kIncomparable;
  std::string reason = {};                 ///< of kIncomparable: one sentence
  std::optional<size_t> first = {};        ///< the earliest wrong step, in `steps`
  std::vector<StepReport> steps = {};      ///< in program order
  std::vector<std::string> unmapped = {};  ///< names in the dump that mean nothing here
  std::vector<std::string> notes = {};     ///< conventions that were undone, and the like
  ArithmeticType arithmetic = ArithmeticType::kF32;
  std::optional<LogitReport> logits = {};

  /// Sites that are wrong in themselves, in order (with those of a precision nobody declared).
  std::vector<std::string> wrong() const;
};

/// Compares a dump with what the model's program makes of the same tokens, step by step, each on
/// the dump's own values. Everything of the reference is computed in double.
DiffReport diff(const Model& model, const Dump& dump, const DiffOptions& options = {});
/// Two dumps by their names alone: totals only.
DiffReport diff(const Dump& yours, const Dump& reference, const DiffOptions& options = {});

}  // namespace mainstem
