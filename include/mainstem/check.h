#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mainstem/program.h"
#include "mainstem/session.h"
#include "mainstem/weights.h"

namespace mainstem {

// ------------------------------------------------------------------ mistakes made on purpose

/// A known mistake and where to make it: "rope.pairing", or "norm.missing@3" for block 3 alone.
struct Mistake {
  std::string id;
  int layer = -1;  ///< -1: every block
};
/// Parses "ID[@LAYER]"; a usage Error lists the known ids.
Mistake parse_mistake(const std::string& text);

struct MistakeInfo {
  std::string id;
  std::string what;  ///< one sentence: what the wrong code does
};
/// Every mistake that can be made, in the order of the contract.
const std::vector<MistakeInfo>& known_mistakes();

/// A program with a mistake in it and the weights that it reads.
struct BrokenModel {
  Program program;        ///< its spec stays the right one
  WeightSources weights;  ///< the model's, but for those that the mistake is about
  std::string what = {};  ///< the form of it that was made: "another eps in norm1: eps = 0"
};
/// Makes the mistake's usual form in every block (or in one), or outside of the blocks where it
/// belongs there. Works for models and for a block on its own. A usage Error where the mistake does
/// not apply.
BrokenModel make_mistake(const Program& program, const WeightSources& weights,
                         const Mistake& mistake);

// ------------------------------------------------------------------ the lesson's failure modes

enum class CheckStatus { kOk, kFailed, kNotApplicable };
std::string_view name(CheckStatus status);  ///< "ok", "failed", "not applicable"

struct CheckResult {
  std::string id;  ///< "causal"
  CheckStatus status = CheckStatus::kOk;
  std::string detail;  ///< what was measured; for a failure the first step that is wrong
};

struct CheckOptions {
  int threads = 0;  ///< 0: all that this process may use
  /// Called again and again with the work done so far and all of it (units of no meaning; a part
  /// that turns out not to apply is jumped over). May throw to stop.
  std::function<void(int64_t done, int64_t total)> progress = {};
};

/// Checks a program against what its spec promises: shape, causal, zero_input, batch, decode,
/// residual, norm_weights, norms, mlp, attention, rotary, finite_weights. Runs small inputs only.
/// The spec is program.spec; the program may have been edited.
std::vector<CheckResult> check(const Program& program, const WeightSources& weights,
                               const CheckOptions& options = {});

}  // namespace mainstem
