#include "mainstem/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/number_text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void require(bool holds, const char* name, const char* expected, double got) {
  // Written so that NaN fails: `holds` is false for it.
  if (!holds) throw usage_error(name, expected, number_text(got));
}

}  // namespace

void validate(const SamplingOptions& options) {
  require(options.temperature >= 0 && std::isfinite(options.temperature), "temperature",
          "a finite number of at least 0", options.temperature);
  require(options.top_k >= 0, "top_k", "0 (all) or more", static_cast<double>(options.top_k));
  require(options.top_p > 0 && options.top_p <= 1, "top_p", "a number above 0 and at most 1",
          options.top_p);
  require(options.min_p >= 0 && options.min_p <= 1, "min_p", "a number from 0 to 1", options.min_p);
  require(options.repeat_penalty > 0 && std::isfinite(options.repeat_penalty), "repeat_penalty",
          "a finite number above 0", options.repeat_penalty);
  require(options.repeat_last_n.value_or(0) >= 0, "repeat_last_n", "0 or more",
          static_cast<double>(options.repeat_last_n.value_or(0)));
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), generator_(options.seed) {
  validate(options_);
}

int64_t Sampler::sample(std::span<const float> logits, std::span<const int64_t> history) {
  load(logits);
  penalise(history);
  if (options_.temperature == 0) {
    const auto best = std::ranges::max_element(
        candidates_, [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; });
    return best->id;  // max_element returns the first of equals: the lowest id
  }
  // Less the largest logit first: a low temperature then cannot overflow.
  double most = kNever;
  for (const Candidate& candidate : candidates_) most = std::max(most, candidate.logit);
  for (Candidate& candidate : candidates_) {
    candidate.logit = (candidate.logit - most) / options_.temperature;
  }
  keep_top_k();
  keep_by_probability();
  return draw();
}

void Sampler::load(std::span<const float> logits) {
  candidates_.clear();
  candidates_.reserve(logits.size());
  bool any = false;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!(logits[id] <= std::numeric_limits<float>::max())) {  // NaN and +Inf
      throw bad_input("logit of token " + std::to_string(id), "a finite number or -inf",
                      std::isnan(logits[id]) ? "NaN" : "+inf");
    }
    any = any || std::isfinite(logits[id]);
    candidates_.push_back({static_cast<double>(logits[id]), static_cast<int64_t>(id)});
  }
  if (!any) {
    throw bad_input("logits", "one finite number at least",
                    logits.empty() ? "no logits" : "-inf everywhere");
  }
}

void Sampler::penalise(std::span<const int64_t> history) {
  if (options_.repeat_last_n) {
    const auto keep = static_cast<size_t>(*options_.repeat_last_n);
    if (keep < history.size()) history = history.last(keep);
  }
  const auto vocab = static_cast<int64_t>(candidates_.size());
  for (const int64_t id : history) {
    if (id < 0 || id >= vocab) {
      throw usage_error("token of the history", "an id below " + std::to_string(vocab),
                        std::to_string(id));
    }
  }
  if (options_.repeat_penalty == 1) return;
  seen_.assign(candidates_.size(), 0);
  for (const int64_t id : history) {  // once per token, however often it occurs
    char& seen = seen_[static_cast<size_t>(id)];
    if (seen != 0) continue;
    seen = 1;
    double& logit = candidates_[static_cast<size_t>(id)].logit;
    logit = logit < 0 ? logit * options_.repeat_penalty : logit / options_.repeat_penalty;
  }
}

void Sampler::keep_top_k() {
  const auto count = static_cast<size_t>(options_.top_k);
  if (count == 0 || count >= candidates_.size()) return;
  std::vector<double> sorted(candidates_.size());
  std::ranges::transform(candidates_, sorted.begin(), &Candidate::logit);
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(count) - 1,
                           std::greater{});
  const double least = sorted[count - 1];
  std::erase_if(candidates_, [least](const Candidate& c) { return c.logit < least; });
}

void Sampler::keep_by_probability() {
  std::erase_if(candidates_, [](const Candidate& c) { return c.logit == kNever; });
  // From here on `logit` holds its exponential: the probability up to a common factor.
  double total = 0;
  for (Candidate& candidate : candidates_) {
    candidate.logit = std::exp(candidate.logit);
    total += candidate.logit;
  }
  if (options_.top_p < 1) {
    // By falling probability; of equals the lower id stays longer.
    std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
    double sum = 0;
    size_t kept = 0;
    while (kept < candidates_.size() && (kept == 0 || sum < options_.top_p * total)) {
      sum += candidates_[kept++].logit;
    }
    candidates_.resize(kept);
    std::ranges::sort(candidates_, {}, &Candidate::id);
  }
  // The most probable token always survives and has weight 1.
  std::erase_if(candidates_, [this](const Candidate& c) { return c.logit < options_.min_p; });
}

int64_t Sampler::draw() {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.logit;
  double uniform = 0;
  generator_.rand(std::span(&uniform, 1));
  double rest = uniform * total;
  for (const Candidate& candidate : candidates_) {
    rest -= candidate.logit;
    if (rest < 0) return candidate.id;
  }
  // Rounding alone may leave a rest.
  const auto last = std::find_if(candidates_.rbegin(), candidates_.rend(),
                                 [](const Candidate& c) { return c.logit > 0; });
  return last->id;
}

void forbid_words(std::span<const std::vector<int64_t>> words, std::span<const int64_t> history,
                  std::span<float> logits) {
  for (const std::vector<int64_t>& word : words) {
    if (word.empty() || word.size() - 1 > history.size()) continue;
    const int64_t id = word.back();
    if (id < 0 || id >= static_cast<int64_t>(logits.size())) continue;
    if (!std::equal(word.begin(), word.end() - 1, history.end() - (std::ssize(word) - 1))) continue;
    logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace mainstem
