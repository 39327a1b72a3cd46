// The search for causes: the known mistakes are replayed on the user's own inputs.

#include "diagnose/doctor_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>

#include "diagnose/doctor_casts.h"
#include "diagnose/doctor_pairs.h"
#include "diagnose/doctor_small.h"
#include "diagnose/doctor_trials.h"
#include "diagnose/error_shape.h"

namespace mainstem {
namespace {

/// A mistake is likely where it removes this much of the error.
constexpr double kLikelyLeft = 0.01;
constexpr size_t kTried = 3;
/// Of two forms that both fit, one may leave so much less than the other that it is the one.
constexpr double kClearlyLess = 0.9;
constexpr double kLargestF16 = 65504;

/// The shape but for how many values dropout made 0, which is another number in each block.
std::string without_share(const std::string& shape) {
  const size_t at = shape.find(" % of the values are 0");
  if (at == std::string::npos) return shape;
  const size_t begin = shape.find_last_not_of("0123456789.", at - 1) + 1;
  return shape.substr(0, begin) + shape.substr(at);
}

class Doctor {
 public:
  Doctor(JudgedDump& judged, const DiffOptions& options)
      : judged_(judged),
        judge_(judged.judge()),
        options_(options),
        trials_(judged, options),
        pairs_(trials_) {}

  std::vector<FoundCause> causes() {
    const auto& steps = judged_.report().steps;
    explained_.assign(steps.size(), false);
    for (size_t i = 0; i < steps.size(); ++i) {
      trials_.show_progress(i, 0);
      if (explained_[i]) continue;
      if (steps[i].verdict == StepVerdict::kPrecision) {
        explain_precision(i);
      } else if (steps[i].verdict == StepVerdict::kWrong) {
        explain(i);
      }
    }
    for (const SmallMistake& mistake : small_mistakes(trials_)) explain_small(mistake);
    if (std::string order = order_of_casts(trials_); !order.empty()) {
      judged_.report().notes.push_back(std::move(order));
    }
    for (size_t i = 0; i < found_.size(); ++i) found_[i].order = i;
    std::sort(found_.begin(), found_.end(), [](const FoundCause& a, const FoundCause& b) {
      return std::tuple(*a.steps.begin(), a.order) < std::tuple(*b.steps.begin(), b.order);
    });
    for (FoundCause& found : found_) finish(found);
    return std::move(found_);
  }

 private:
  FoundCause& found(const std::string& key) {
    for (FoundCause& each : found_) {
      if (each.key == key) return each;
    }
    found_.push_back({.key = key});
    return found_.back();
  }

  void note_step(FoundCause& found, size_t i, const Fit& before, double left, double envelope) {
    explained_[i] = true;
    found.steps.insert(i);
    if (before.local >= found.cause.local) found.cause.local = before.local;
    if (left >= found.cause.left) {
      found.cause.left = left;
      found.cause.envelope = envelope;
    }
  }

  void finish(FoundCause& found) {
    std::map<std::string, std::set<int>> layers_of;
    std::vector<SiteId> order;
    std::set<int> layers = found.layers;
    for (size_t i : found.steps) {
      const SiteId& site = judged_.report().steps[i].site;
      const std::string key = name_in_every_block(site);
      if (!layers_of.contains(key)) order.push_back(site);
      layers_of[key].insert(site.layer);
      if (site.layer >= 0) layers.insert(site.layer);
    }
    for (const SiteId& site : order) {
      const bool several = layers_of[name_in_every_block(site)].size() > 1;
      found.cause.sites.push_back(several ? name_in_every_block(site) : to_string(site));
    }
    found.cause.layers.assign(layers.begin(), layers.end());
  }

  /// A known rounding of one implementation says more than its type.
  bool explain_rounding(size_t i) {
    std::vector<Trial> holding;
    for (const Form* form : trials_.candidates(i)) {
      if (!form->only_rounds || form->cause == "norm.cast_order") continue;
      Trial trial = trials_.attempt(*form, i, NumberSearch::kUsual);
      if (trial.holds()) holding.push_back(std::move(trial));
    }
    if (holding.empty()) return false;
    accept(i, holding);
    return true;
  }

  void explain_precision(size_t i) {
    if (explain_rounding(i)) return;
    const LowerPrecision lower = *judged_.precision(i);
    std::string word(name(lower.type));
    if (lower.only) word += fmt::format(", in {} alone", name(lower.only->site));
    const std::string declared(name(judge_.arithmetic()));
    FoundCause& each = found("precision.dtype|" + word);
    Cause& cause = each.cause;
    cause.id = "precision.dtype";
    cause.status = CauseStatus::kProved;
    cause.parameters = {{"yours", word}, {"reference", declared}};
    cause.usual_place = "the setting of the runtime's inference precision, or a cast in the module";
    cause.fix = fmt::format("ask for {} explicitly, or declare --dtype {}", declared, word);
    note_step(each, i, judged_.fit(i), judged_.fit(i).local, judged_.fit(i).envelope);
  }

  /// Proved by all values together, since each of them alone is round-off.
  void explain_small(const SmallMistake& mistake) {
    const Form& form = *mistake.forms.front();
    FoundCause& each = found(known_key(form, mistake.numbers));
    fill(each.cause, form, mistake.numbers);
    each.cause.status = mistake.proved() ? CauseStatus::kProved : CauseStatus::kLikely;
    const double local = judged_.fit(mistake.steps.front()).local;
    for (const auto* others : {&mistake.same, &mistake.rivals}) {
      for (const auto& [other, numbers] : *others) add_same(each.cause, *other, numbers, local);
    }
    if (!mistake.other_numbers.empty()) {
      each.cause.parameters.emplace_back("or", fmt::format("{} = {:.6g}", form.numbers[0].name,
                                                           fmt::join(mistake.other_numbers, ", ")));
    }
    each.cause.parameters.emplace_back(
        "evidence",
        fmt::format("what differs from the reference is {:.2f} ± {:.2f} times what this mistake "
                    "changes, over {} values, though each step alone is round-off",
                    mistake.regression.coefficient(), mistake.regression.deviation(),
                    mistake.regression.count));
    for (size_t n = 0; n < mistake.steps.size(); ++n) {
      const size_t i = mistake.steps[n];
      const Trial trial{.form = mistake.forms[n],
                        .numbers = mistake.numbers,
                        .fit = judge_.fit(judged_.value(i), mistake.forms[n]->make(mistake.numbers),
                                          judged_.fit(i))};
      add_made(each, trial, i);
      note_step(each, i, judged_.fit(i), trial.fit.local, judged_.fit(i).envelope);
    }
    judged_.call_wrong(mistake.steps);
  }

  void explain(size_t i) {
    if (explain_tokens(i) || explain_overflow(i)) return;
    if (const auto pair = pairs_.again(i)) return accept_pair(i, *pair);
    std::vector<Trial> trials;
    std::vector<Trial> holding;
    for (const NumberSearch numbers : {NumberSearch::kUsual, NumberSearch::kSolved}) {
      if (numbers == NumberSearch::kSolved && trials_.is_long(i)) break;
      try_all(i, numbers, trials);
      for (const Trial& trial : trials) {
        if (trial.holds()) holding.push_back(trial);
      }
      if (!holding.empty()) break;
    }
    if (!holding.empty()) return accept(i, holding);
    std::sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
      return std::tie(a.fit.local, a.order) < std::tie(b.fit.local, b.order);
    });
    if (const auto pair = pairs_.find(i, trials)) return accept_pair(i, *pair);
    describe_unknown(i, trials);
  }

  /// Adds a trial of each form; of none but the first where that is the same mistake again.
  void try_all(size_t i, NumberSearch numbers, std::vector<Trial>& trials) {
    std::vector<const Form*> forms = trials_.candidates(i);
    if (numbers == NumberSearch::kSolved) {
      std::erase_if(forms, [](const Form* form) { return form->numbers.empty(); });
    }
    const auto add = [&](Trial trial) {
      trial.order = trials.size();
      trials.push_back(std::move(trial));
    };
    size_t known = 0;
    for (; known < forms.size() && trials_.is_known(*forms[known]); ++known) {
      add(trials_.attempt(*forms[known], i, numbers));
      if (numbers == NumberSearch::kUsual && trials.back().holds()) return;
    }
    for (Trial& trial : trials_.attempt(std::span(forms).subspan(known), i, numbers)) {
      add(std::move(trial));
    }
  }

  void accept(size_t i, std::vector<Trial>& holding) {
    if (holding.size() > 1) {
      for (Trial& trial : holding) trial.score = trials_.score(trial);
      std::sort(holding.begin(), holding.end(), [](const Trial& a, const Trial& b) {
        return std::tuple(-a.score, a.numbers.size(), a.order) <
               std::tuple(-b.score, b.numbers.size(), b.order);
      });
      prefer_nearer(holding);
    }
    const Trial& best = holding.front();
    prove(i, best, best.fit);
    FoundCause& each = found(known_key(*best.form, best.numbers));
    note_same_values(each.cause, holding);
    // The other steps of the same mistake.
    for (const auto& [j, fit] : trials_.explained_by(best, explained_)) {
      note_step(each, j, judged_.fit(j), fit.local, fit.envelope);
    }
  }

  /// Those that explain as much as the best one. Of its own forms those that leave nearly as much:
  /// one that leaves the very same is the same mistake by other words, as one of the next block is.
  static void note_same_values(Cause& cause, const std::vector<Trial>& holding) {
    const Trial& best = holding.front();
    for (const Trial& trial : holding) {
      if (trial.score != best.score) continue;
      const bool is_told =
          trial.fit.local == best.fit.local || kClearlyLess * trial.fit.local > best.fit.local;
      if (trial.form->cause == cause.id && is_told) continue;
      add_same(cause, *trial.form, trial.numbers, trial.fit.local);
    }
  }

  static void add_same(Cause& cause, const Form& form, std::span<const double> numbers,
                       double left) {
    const std::string yours = yours_text(form, numbers);
    const bool known = std::any_of(
        cause.same_values.begin(), cause.same_values.end(),
        [&](const TriedCause& each) { return each.id == form.cause && each.what == yours; });
    if (!known) cause.same_values.push_back({form.cause, yours, left});
  }

  /// Of two forms of one mistake that explain the same steps, that which leaves clearly less.
  static void prefer_nearer(std::vector<Trial>& holding) {
    for (size_t i = 1; i < holding.size(); ++i) {
      const Trial& first = holding.front();
      const Trial& other = holding[i];
      const bool same = other.form->cause == first.form->cause && other.score == first.score &&
                        other.numbers.size() == first.numbers.size();
      if (same && other.fit.local < kClearlyLess * first.fit.local) {
        std::swap(holding.front(), holding[i]);
      }
    }
  }

  void prove(size_t i, const Trial& trial, const Fit& fit) {
    FoundCause& each = found(known_key(*trial.form, trial.numbers));
    fill(each.cause, *trial.form, trial.numbers);
    each.cause.status = CauseStatus::kProved;
    trials_.remember(trial);
    add_made(each, trial, i);
    note_step(each, i, judged_.fit(i), fit.local, fit.envelope);
  }

  /// Both are proved by what they leave together.
  void accept_pair(size_t i, const PairOfTrials& pair) {
    prove(i, pair.first, pair.second.fit);
    prove(i, pair.second, pair.second.fit);
  }

  void add_made(FoundCause& found, const Trial& trial, size_t i) const {
    const Form& form = *trial.form;
    auto blocks = form.blocks;
    if (blocks.empty()) {
      blocks.emplace_back(form.layer, judged_.value(i).site.stack == Stack::kEncoder);
    } else {
      for (const auto& [layer, encoder] : blocks) {
        if (layer >= 0) found.layers.insert(layer);
      }
    }
    for (const auto& [layer, encoder] : blocks) {
      found.made.push_back({form.cause, form.yours, layer, encoder, trial.numbers});
    }
  }

  static void fill(Cause& cause, const Form& form, const std::vector<double>& numbers) {
    cause.id = form.cause;
    cause.parameters = {{"yours", yours_text(form, numbers)}, {"reference", form.reference}};
    for (size_t n = 0; n < numbers.size(); ++n) {
      cause.parameters.emplace_back(form.numbers[n].name, fmt::format("{:.6g}", numbers[n]));
    }
    cause.usual_place = form.usual_place;
    cause.fix = form.fix;
    cause.known_fault = form.known_fault;
  }

  /// Another text: the embeddings are the rows of other ids.
  bool explain_tokens(size_t i) {
    const Site site = judged_.report().steps[i].site.site;
    const bool embeds =
        site == Site::kTokenEmbed || site == Site::kEmbed || site == Site::kEmbedSum;
    if (!judged_.aligned().tokens_differ || !embeds) return false;
    FoundCause& each = found("input.tokens");
    each.cause.id = "input.tokens";
    each.cause.status = CauseStatus::kProved;
    each.cause.parameters = {{"yours", "rows of other ids"}, {"reference", "the ids given"}};
    each.cause.usual_place = "the tokenizer: begin token, special tokens, template";
    each.cause.fix = "compare the ids first: `mainstem tokenize` prints the model's own";
    const Fit& fit = judged_.fit(i);
    note_step(each, i, fit, fit.envelope, fit.envelope);
    return true;
  }

  /// Infinite exactly where float16 ends.
  bool explain_overflow(size_t i) {
    const AlignedValue& value = judged_.value(i);
    if (judged_.report().steps[i].first_inf.empty()) return false;
    const std::vector<double> made =
        judge_.replay_of(value).run({}, {}, options_.threads, options_.cancel);
    if (made.size() != value.data.size()) return false;
    AlignedValue rest = value;
    for (size_t e = 0; e < made.size(); ++e) {
      if (!std::isinf(value.data[e]) || !std::isfinite(made[e])) continue;
      if (std::fabs(made[e]) < kLargestF16) return false;
      rest.data[e] = made[e];
    }
    const Difference left = difference(rest, judge_.compared(value), rest.data, made);
    FoundCause& each = found("precision.overflow");
    each.cause.id = "precision.overflow";
    each.cause.status = left.relative() <= kRatioBand * unit_roundoff(ArithmeticType::kF16)
                            ? CauseStatus::kProved
                            : CauseStatus::kLikely;
    each.cause.parameters = {{"yours", "float16, which ends at 65504"},
                             {"reference", "a type that holds the value"}};
    each.cause.usual_place = "the residual sum or the MLP's output in float16";
    each.cause.fix = "keep this step in float32 or bfloat16";
    note_step(each, i, judged_.fit(i), left.relative(), unit_roundoff(ArithmeticType::kF16));
    return true;
  }

  void describe_unknown(size_t i, const std::vector<Trial>& trials) {
    const Fit& before = judged_.fit(i);
    const AlignedValue& value = judged_.value(i);
    const bool likely = !trials.empty() && std::isfinite(before.local) &&
                        trials.front().fit.local <= kLikelyLeft * before.local;
    if (likely) {
      const Trial& best = trials.front();
      FoundCause& each = found("likely|" + known_key(*best.form, best.numbers));
      fill(each.cause, *best.form, best.numbers);
      each.cause.status = CauseStatus::kLikely;
      add_made(each, best, i);
      note_step(each, i, before, best.fit.local, before.envelope);
      return;
    }
    const std::vector<double> made =
        judge_.replay_of(value).run({}, {}, options_.threads, options_.cancel);
    const std::string shape = error_shape(judge_, value, made, before.envelope);
    const SiteId& site = value.site;
    FoundCause& each = found(fmt::format("unknown|{}|{}", name(site.site), without_share(shape)));
    each.cause.id = "unknown";
    each.cause.status = CauseStatus::kUnknown;
    each.cause.shape = shape;
    each.cause.parameters = {{"yours", shape}, {"reference", "what the step's formula gives"}};
    each.cause.fix =
        "look at this step's code: it is judged on what the dump itself holds before it";
    if (each.cause.tried.empty()) {
      for (const Trial& trial : trials) {
        if (each.cause.tried.size() == kTried || !std::isfinite(trial.fit.local)) break;
        if (trial.fit.local >= before.local) break;
        const Edited edited = trial.form->make(trial.numbers);
        const double left = trial.fit.of_first_rows ? judge_.fit(value, edited, before, true).local
                                                    : trial.fit.local;
        each.cause.tried.push_back({trial.form->cause, trial.form->yours, left});
      }
    }
    note_step(each, i, before, before.local, before.envelope);
  }

  JudgedDump& judged_;
  Judge& judge_;
  const DiffOptions& options_;
  Trials trials_;
  Pairs pairs_;
  std::vector<bool> explained_;
  std::vector<FoundCause> found_;
};

}  // namespace

std::string name_in_every_block(SiteId site) {
  if (site.layer < 0) return to_string(site);
  site.layer = 0;
  std::string text = to_string(site);
  const std::string first = "blocks.0.";
  if (const size_t at = text.find(first); at != std::string::npos) {
    text.replace(at, first.size(), "blocks.*.");
  }
  return text;
}

std::vector<FoundCause> find_causes(JudgedDump& judged, const DiffOptions& options) {
  return Doctor(judged, options).causes();
}

}  // namespace mainstem
