#include "diagnose/doctor_pairs.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "mainstem/error.h"

namespace mainstem {
namespace {

/// Single mistakes on which a second one is tried.
constexpr size_t kBases = 6;
/// Pairs whose open numbers are solved for.
constexpr size_t kRefined = 3;
/// Each of both must make the error so many times smaller, with the other one in place.
constexpr double kNeeded = 10;
/// Two mistakes are looked for in errors of at least so many envelopes.
constexpr double kFarFromRoundOff = 20;
/// In longer chains there are too many pairs to try, and too many that would fit by chance.
constexpr size_t kMostBlocks = 2;
/// After so many searches in vain at one kind of step no more are made.
constexpr int kMostInVain = 3;

/// Those first that leave least, and no more than are solved for.
void keep_best(std::vector<std::unique_ptr<PairOfTrials>>& pairs) {
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i]->second.order = i;
  std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
    return std::tie(a->second.fit.local, a->second.order) <
           std::tie(b->second.fit.local, b->second.order);
  });
  if (pairs.size() > kRefined) pairs.resize(kRefined);
}

bool is_among(const std::vector<SiteId>& sites, const SiteId& site) {
  return std::find(sites.begin(), sites.end(), site) != sites.end();
}

}  // namespace

/// The reference with the first mistake in it, and the mistakes that can be made on top.
struct Pairs::Base {
  Edited edited;
  WeightSources sources;  ///< all of them
  std::vector<Form> forms;
};

std::shared_ptr<Pairs::Base> Pairs::base_of(const Trial& first, size_t step) const {
  const Judge& judge = trials_.judged().judge();
  auto base = std::make_shared<Base>();
  base->edited = first.form->make(first.numbers);
  base->sources = merged(base->edited.weights, judge.weights());
  std::vector<SiteId> sites = trials_.judged().fit(step).covers;
  sites.push_back(trials_.judged().value(step).site);
  std::set<std::pair<int, bool>> places;
  for (const SiteId& site : sites) places.insert({site.layer, site.stack == Stack::kEncoder});
  for (const auto& [layer, encoder] : places) {
    for (Form& form : forms(base->edited.program, base->sources, layer, encoder)) {
      const bool shows = std::any_of(form.shows.begin(), form.shows.end(),
                                     [&](const SiteId& site) { return is_among(sites, site); });
      if (shows && form.cause != first.form->cause) base->forms.push_back(std::move(form));
    }
  }
  return base;
}

/// The best that can be made on top of the first mistake.
std::vector<std::unique_ptr<PairOfTrials>> Pairs::on_top(const std::shared_ptr<Base>& base,
                                                         const Trial& first, size_t step) {
  std::vector<std::unique_ptr<PairOfTrials>> pairs;
  std::vector<const Form*> forms;
  for (const Form& second : base->forms) {
    auto pair = std::make_unique<PairOfTrials>();
    pair->first = first;
    pair->form = second;
    pair->form.make = [base, second](std::span<const double> numbers) {
      Edited edited = second.make(numbers);
      edited.weights = merged(edited.weights, base->edited.weights);
      return edited;
    };
    forms.push_back(&pair->form);
    pairs.push_back(std::move(pair));
  }
  std::vector<Trial> seconds = trials_.attempt(forms, step, NumberSearch::kUsual);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i]->second = std::move(seconds[i]);
  std::erase_if(pairs,
                [&](const auto& pair) { return !(pair->second.fit.local < first.fit.local); });
  keep_best(pairs);
  return pairs;
}

/// Solves for what the published numbers leave open, in the second mistake and then in the first.
bool Pairs::refine(PairOfTrials& pair, size_t step) {
  if (!pair.form.numbers.empty()) {
    pair.second = trials_.attempt(pair.form, step, NumberSearch::kSolved);
  }
  if (pair.second.holds() || pair.first.form->numbers.empty()) return pair.second.holds();
  const Form& first = *pair.first.form;
  const WeightSources& weights = trials_.judged().judge().weights();
  Form both = first;
  both.make = [&first, &weights, second = pair.form,
               encoder = trials_.judged().value(step).site.stack == Stack::kEncoder,
               second_numbers = pair.second.numbers](std::span<const double> numbers) {
    Edited edited = first.make(numbers);
    const WeightSources sources = merged(edited.weights, weights);
    const auto form =
        find_form(edited.program, sources, second.layer, encoder, second.cause, second.yours);
    if (!form) {
      throw usage_error("mistake " + known_key(second),
                        "one that can be made on top of " + known_key(first), "none");
    }
    Edited result = form->make(second_numbers);
    result.weights = merged(result.weights, edited.weights);
    return result;
  };
  const Trial solved = trials_.attempt(both, step, NumberSearch::kSolved);
  if (!solved.holds()) return false;
  pair.first.numbers = solved.numbers;
  pair.first.usual = solved.usual;
  pair.second.fit = solved.fit;
  return true;
}

bool Pairs::both_needed(const PairOfTrials& pair, const std::vector<Trial>& singles) const {
  const double left = pair.second.fit.local;
  if (pair.first.fit.local < kNeeded * left) return false;
  const std::string key = known_key(pair.form);
  return std::all_of(singles.begin(), singles.end(), [&](const Trial& single) {
    return known_key(*single.form) != key || single.fit.local >= kNeeded * left;
  });
}

std::unique_ptr<PairOfTrials> Pairs::keep(std::unique_ptr<PairOfTrials> pair) {
  pair->second.form = &pair->form;
  known_.insert({known_key(*pair->first.form), known_key(pair->form)});
  return pair;
}

std::unique_ptr<PairOfTrials> Pairs::again(size_t step) {
  for (const auto& [first_key, second_key] : known_) {
    for (const Form* form : trials_.candidates(step)) {
      if (known_key(*form) != first_key) continue;
      const Trial first = trials_.attempt(*form, step, NumberSearch::kUsual);
      if (!std::isfinite(first.fit.local)) continue;
      const std::shared_ptr<Base> base = base_of(first, step);
      std::erase_if(base->forms, [&](const Form& each) { return known_key(each) != second_key; });
      for (auto& pair : on_top(base, first, step)) {
        if (pair->second.holds() && both_needed(*pair, {})) return keep(std::move(pair));
      }
    }
  }
  return nullptr;
}

std::unique_ptr<PairOfTrials> Pairs::find(size_t step, const std::vector<Trial>& singles) {
  const Fit& before = trials_.judged().fit(step);
  int& in_vain = in_vain_[trials_.judged().value(step).site.site];
  const bool clear = before.local >= kFarFromRoundOff * before.envelope;
  if (!clear || in_vain >= kMostInVain || trials_.blocks_at(step).size() > kMostBlocks)
    return nullptr;
  std::vector<std::unique_ptr<PairOfTrials>> open;
  size_t bases = 0;
  for (const Trial& first : singles) {
    if (bases == kBases || !(first.fit.local < before.local)) break;
    if (first.at_edge) continue;
    ++bases;
    std::vector<std::unique_ptr<PairOfTrials>> pairs = on_top(base_of(first, step), first, step);
    for (auto& pair : pairs) {
      if (pair->second.holds() && both_needed(*pair, singles)) return keep(std::move(pair));
    }
    for (auto& pair : pairs) open.push_back(std::move(pair));
  }
  keep_best(open);
  for (auto& pair : open) {
    if (refine(*pair, step) && both_needed(*pair, singles)) return keep(std::move(pair));
  }
  ++in_vain;
  return nullptr;
}

}  // namespace mainstem
