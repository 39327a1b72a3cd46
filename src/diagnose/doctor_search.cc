// The search for causes: the known mistakes are replayed on the user's own inputs.

#include "diagnose/doctor_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "diagnose/error_shape.h"
#include "diagnose/solve.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

/// With numbers that nobody publishes a mistake must fit better: there are many such numbers.
constexpr double kSolvedBand = 2;
/// A mistake is likely where it removes this much of the error.
constexpr double kLikelyLeft = 0.01;
constexpr size_t kTried = 3;
constexpr double kLargestF16 = 65504;

/// A form of a mistake beside one value.
struct Trial {
  const Form* form = nullptr;
  std::vector<double> numbers = {};
  Fit fit = {};
  int score = 0;     ///< wrong steps explained, less those it would make wrong
  size_t order = 0;  ///< among those tried
  bool holds() const { return fit.holds() && (usual || fit.ratio <= kSolvedBand); }
  bool usual = true;  ///< the numbers are published ones, or there are none
};

/// What makes two findings one.
std::string key_of(const Form& form, const std::vector<double>& numbers) {
  std::string key = form.cause + "|" + form.yours;
  for (double number : numbers) key += fmt::format("|{:.4g}", number);
  return key;
}

std::string known_key(const Form& form) { return form.cause + "|" + form.yours; }

class Doctor {
 public:
  Doctor(JudgedDump& judged, const DiffOptions& options)
      : judged_(judged), judge_(judged.judge()), options_(options) {}

  std::vector<FoundCause> causes() {
    const auto& steps = judged_.report().steps;
    explained_.assign(steps.size(), false);
    for (size_t i = 0; i < steps.size(); ++i) {
      if (options_.progress) options_.progress(static_cast<int64_t>(i), std::ssize(steps));
      if (explained_[i]) continue;
      if (steps[i].verdict == StepVerdict::kPrecision) {
        explain_precision(i);
      } else if (steps[i].verdict == StepVerdict::kWrong) {
        explain(i);
      }
    }
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
    std::vector<std::string> order;
    std::set<int> layers;
    for (size_t i : found.steps) {
      const SiteId& site = judged_.report().steps[i].site;
      SiteId bare = site;
      if (site.layer >= 0) bare.layer = 0;
      const std::string key = to_string(bare);
      if (!layers_of.contains(key)) order.push_back(key);
      layers_of[key].insert(site.layer);
      if (site.layer >= 0) layers.insert(site.layer);
    }
    for (const std::string& key : order) {
      std::string text = key;
      const size_t at = text.find("blocks.0.");
      if (at != std::string::npos) {
        const auto& own = layers_of[key];
        text.replace(at + 7, 1, own.size() > 1 ? "*" : std::to_string(*own.begin()));
      }
      found.cause.sites.push_back(text);
    }
    found.cause.layers.assign(layers.begin(), layers.end());
  }

  /// A known rounding of one implementation says more than its type.
  bool explain_rounding(size_t i) {
    std::vector<Trial> holding;
    for (const Form* form : candidates(i)) {
      if (form->known_fault.empty() || !form->numbers.empty()) continue;
      Trial trial = attempt_safely(*form, judged_.value(i), judged_.fit(i), false);
      if (trial.holds()) holding.push_back(std::move(trial));
    }
    if (holding.empty()) return false;
    accept(i, holding);
    return true;
  }

  void explain_precision(size_t i) {
    if (explain_rounding(i)) return;
    const std::string word(name(*judged_.precision(i)));
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

  const std::vector<Form>& forms_of(int layer, bool encoder) {
    const std::pair<int, bool> key{layer, encoder};
    auto at = forms_.find(key);
    if (at == forms_.end()) {
      at = forms_.emplace(key, forms(judge_.right(), judge_.weights(), layer, encoder)).first;
    }
    return at->second;
  }

  /// The value a site names, so that second names are the same.
  ValueId value_of(const SiteId& site) const {
    return judge_.right().find_value(site).value_or(kNoId);
  }

  std::set<ValueId> values_of(const std::vector<SiteId>& sites) const {
    std::set<ValueId> values;
    for (const SiteId& site : sites) values.insert(value_of(site));
    return values;
  }

  /// Every form that changes the step or what is judged with it.
  std::vector<const Form*> candidates(size_t i) {
    const AlignedValue& value = judged_.value(i);
    std::vector<SiteId> sites = judged_.fit(i).covers;
    sites.push_back(value.site);
    const std::set<ValueId> values = values_of(sites);
    std::set<std::pair<int, bool>> places;
    // Every name counts: the stream that enters a block is what the one before it leaves.
    for (const NamedValue& named : judge_.right().sites) {
      if (!values.contains(named.value)) continue;
      places.insert({named.site.layer, named.site.stack == Stack::kEncoder});
    }
    // What was found before comes first.
    std::vector<const Form*> result;
    std::vector<const Form*> others;
    for (const auto& [layer, encoder] : places) {
      for (const Form& form : forms_of(layer, encoder)) {
        const bool shows = std::any_of(form.shows.begin(), form.shows.end(), [&](const SiteId& s) {
          return values.contains(value_of(s));
        });
        if (!shows) continue;
        (known_.contains(known_key(form)) ? result : others).push_back(&form);
      }
    }
    result.insert(result.end(), others.begin(), others.end());
    return result;
  }

  Trial attempt(const Form& form, const AlignedValue& value, const Fit& before, bool search) {
    Trial trial{.form = &form};
    const double enough = judge_.arithmetic() == ArithmeticType::kF64 ? 1e-15 : 1e-8;
    const auto before_this = known_.find(known_key(form));
    if (before_this != known_.end() && !form.numbers.empty()) {
      // The same mistake again has the same numbers.
      trial.numbers = before_this->second;
      trial.fit = judge_.fit(value, form.make(trial.numbers), before);
      if (trial.holds()) return trial;
    }
    if (!form.numbers.empty()) {
      const auto error = [&](std::span<const double> numbers) {
        return judge_.local_of_some(value, form.make(numbers));
      };
      const Solved solved =
          search ? solve(form.numbers, error, enough) : best_usual(form.numbers, error, enough);
      trial.numbers = solved.numbers;
      for (size_t n = 0; n < solved.numbers.size(); ++n) {
        const auto& usual = form.numbers[n].usual;
        trial.usual &= std::find(usual.begin(), usual.end(), solved.numbers[n]) != usual.end();
      }
      if (trial.numbers.empty()) return trial;
    }
    trial.fit = judge_.fit(value, form.make(trial.numbers), before);
    return trial;
  }

  /// How many of the dump's values the mistake explains, less those it cannot be in.
  int score(const Trial& trial) {
    int result = 0;
    const Edited edited = trial.form->make(trial.numbers);
    const std::set<ValueId> shows = values_of(trial.form->shows);
    const auto& steps = judged_.report().steps;
    for (size_t j = 0; j < steps.size(); ++j) {
      if (!shows.contains(value_of(steps[j].site))) continue;
      if (steps[j].verdict == StepVerdict::kInherited && !judged_.fit(j).holds()) continue;
      const bool fits = judge_.fit(judged_.value(j), edited, judged_.fit(j)).holds();
      const bool was_wrong = !judged_.fit(j).holds();
      if (was_wrong && fits) result += 2;
      if (!was_wrong && !fits) result -= 1;
    }
    return result;
  }

  void explain(size_t i) {
    if (explain_tokens(i) || explain_overflow(i)) return;
    const AlignedValue& value = judged_.value(i);
    const Fit& before = judged_.fit(i);
    std::vector<Trial> trials;
    std::vector<Trial> holding;
    for (bool search : {false, true}) {
      for (const Form* form : candidates(i)) {
        if (search && form->numbers.empty()) continue;
        check_cancel();
        Trial trial = attempt_safely(*form, value, before, search);
        trial.order = trials.size();
        if (trial.holds()) {
          const bool known = known_.contains(known_key(*form));
          holding.push_back(trial);
          if (known && !search) break;  // the same mistake again
        }
        trials.push_back(std::move(trial));
      }
      if (!holding.empty()) break;
    }
    if (!holding.empty()) return accept(i, holding);
    std::sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
      return std::tie(a.fit.local, a.order) < std::tie(b.fit.local, b.order);
    });
    describe_unknown(i, trials);
  }

  /// An edit that cannot be made on this program is no candidate.
  Trial attempt_safely(const Form& form, const AlignedValue& value, const Fit& before,
                       bool search) {
    try {
      Trial trial = attempt(form, value, before, search);
      if (trial.fit.exact.error.empty()) {
        trial.fit.local = trial.fit.ratio = std::numeric_limits<double>::infinity();
      }
      return trial;
    } catch (const Error&) {
      Trial none{.form = &form};
      none.fit.local = none.fit.ratio = std::numeric_limits<double>::infinity();
      return none;
    }
  }

  void accept(size_t i, std::vector<Trial>& holding) {
    if (holding.size() > 1) {
      for (Trial& trial : holding) trial.score = score(trial);
      std::sort(holding.begin(), holding.end(), [](const Trial& a, const Trial& b) {
        return std::tuple(-a.score, a.numbers.size(), a.order) <
               std::tuple(-b.score, b.numbers.size(), b.order);
      });
    }
    const Trial& best = holding.front();
    const Form& form = *best.form;
    FoundCause& each = found(key_of(form, best.numbers));
    fill(each.cause, form, best.numbers);
    each.cause.status = CauseStatus::kProved;
    known_.try_emplace(known_key(form), best.numbers);
    each.made.push_back(made_mistake(best, i));
    note_step(each, i, judged_.fit(i), best.fit.local, best.fit.envelope);
    // The other steps of the same mistake.
    const Edited edited = form.make(best.numbers);
    const std::set<ValueId> shows = values_of(form.shows);
    const auto& steps = judged_.report().steps;
    for (size_t j = i + 1; j < steps.size(); ++j) {
      if (steps[j].verdict != StepVerdict::kWrong || explained_[j]) continue;
      if (!shows.contains(value_of(steps[j].site))) continue;
      const Fit fit = judge_.fit(judged_.value(j), edited, judged_.fit(j));
      if (fit.holds()) note_step(each, j, judged_.fit(j), fit.local, fit.envelope);
    }
  }

  MadeMistake made_mistake(const Trial& trial, size_t i) const {
    const Form& form = *trial.form;
    return {form.cause, form.yours, form.layer, judged_.value(i).site.stack == Stack::kEncoder,
            trial.numbers};
  }

  static void fill(Cause& cause, const Form& form, const std::vector<double>& numbers) {
    cause.id = form.cause;
    cause.parameters.clear();
    std::string yours = form.yours;
    for (size_t n = 0; n < numbers.size(); ++n) {
      const std::string text = fmt::format("{:.6g}", numbers[n]);
      yours += fmt::format("{}{} = {}", n == 0 ? ": " : ", ", form.numbers[n].name, text);
      cause.parameters.emplace_back(form.numbers[n].name, text);
    }
    cause.parameters.insert(cause.parameters.begin(), {"reference", form.reference});
    cause.parameters.insert(cause.parameters.begin(), {"yours", yours});
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
    const Replay replay(judge_.right(), judge_.weights(), judge_.ground(), value.site);
    const std::vector<double> made = replay.run({}, {}, options_.threads, options_.cancel);
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
      FoundCause& each = found("likely|" + key_of(*best.form, best.numbers));
      fill(each.cause, *best.form, best.numbers);
      each.cause.status = CauseStatus::kLikely;
      each.made.push_back(made_mistake(best, i));
      note_step(each, i, before, best.fit.local, before.envelope);
      return;
    }
    const Replay replay(judge_.right(), judge_.weights(), judge_.ground(), value.site);
    const std::vector<double> made = replay.run({}, {}, options_.threads, options_.cancel);
    const std::string shape = error_shape(value, judge_.compared(value), made, before.envelope);
    const SiteId& site = value.site;
    FoundCause& each = found(fmt::format("unknown|{}|{}", name(site.site), shape));
    each.cause.id = "unknown";
    each.cause.status = CauseStatus::kUnknown;
    each.cause.shape = shape;
    each.cause.parameters = {{"yours", shape}, {"reference", "what the step's formula gives"}};
    each.cause.fix = "look at this step's code: what it reads agrees with the reference";
    if (each.cause.tried.empty()) {
      for (const Trial& trial : trials) {
        if (each.cause.tried.size() == kTried || !std::isfinite(trial.fit.local)) break;
        if (trial.fit.local >= before.local) break;
        each.cause.tried.push_back({trial.form->cause, trial.form->yours, trial.fit.local});
      }
    }
    note_step(each, i, before, before.local, before.envelope);
  }

  void check_cancel() const {
    if (options_.cancel != nullptr && options_.cancel->load()) throw Cancelled();
  }

  JudgedDump& judged_;
  Judge& judge_;
  const DiffOptions& options_;
  std::map<std::pair<int, bool>, std::vector<Form>> forms_;
  std::map<std::string, std::vector<double>> known_;  ///< mistakes found, with their numbers
  std::vector<bool> explained_;
  std::vector<FoundCause> found_;
};

}  // namespace

std::vector<FoundCause> find_causes(JudgedDump& judged, const DiffOptions& options) {
  return Doctor(judged, options).causes();
}

}  // namespace mainstem
