#include "diagnose/doctor_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "diagnose/solve.h"
#include "mainstem/error.h"

namespace mainstem {

namespace {

/// In chains of more blocks a mistake is looked for in all of them, and not in each alone.
constexpr size_t kMostBlocksAlone = 8;

}  // namespace

std::string known_key(const Form& form) { return form.cause + "|" + form.yours; }

std::string known_key(const Form& form, std::span<const double> numbers) {
  std::string key = known_key(form);
  for (const double number : numbers) key += fmt::format("|{:.4g}", number);
  return key;
}

void Trials::check_cancel() const {
  if (options_.cancel != nullptr && options_.cancel->load()) throw Cancelled();
}

void Trials::show_progress(size_t step, double share) const {
  if (!options_.progress) return;
  constexpr int64_t kParts = 1000;
  const auto total = std::ssize(judged_.report().steps);
  options_.progress(static_cast<int64_t>(step) * kParts + static_cast<int64_t>(share * kParts),
                    total * kParts);
}

const std::vector<Form>& Trials::forms_of(int layer, bool encoder) {
  const std::pair<int, bool> key{layer, encoder};
  auto at = forms_.find(key);
  if (at == forms_.end()) {
    at = forms_.emplace(key, forms(judge_.right(), judge_.weights(), layer, encoder)).first;
  }
  return at->second;
}

bool Trials::shows_in(const Form& form, const std::set<ValueId>& values) const {
  return std::any_of(form.shows.begin(), form.shows.end(),
                     [&](const SiteId& site) { return values.contains(value_of(site)); });
}

const std::vector<Form>& Trials::forms_of_several(size_t step) {
  const auto at = forms_of_several_.find(step);
  if (at != forms_of_several_.end()) return at->second;
  const std::set<ValueId>& values = values_at(step);
  // Those that show in the chain in more than one block, with these blocks.
  std::vector<Form> found;
  std::map<std::string, size_t> seen;
  for (const auto& [layer, encoder] : blocks_at(step)) {
    for (const Form& form : forms_of(layer, encoder)) {
      if (!shows_in(form, values)) continue;
      const auto [known, is_new] = seen.emplace(known_key(form), found.size());
      if (is_new) found.push_back(form);
      Form& all = found[known->second];
      all.blocks.emplace_back(layer, encoder);
      if (!is_new) all.shows.insert(all.shows.end(), form.shows.begin(), form.shows.end());
    }
  }
  std::vector<Form> result;
  const auto add = [&](const Form& form, const std::vector<std::pair<int, bool>>& blocks) {
    result.push_back(in_blocks(judge_.right(), judge_.weights(), form, blocks));
  };
  for (const Form& form : found) {
    if (form.blocks.size() > 1) add(form, form.blocks);
  }
  // One class may serve outside of the blocks as well.
  for (const Form& outside : forms_of(-1, false)) {
    const auto inside = seen.find(known_key(outside));
    if (inside == seen.end() || !shows_in(outside, values)) continue;
    Form form = found[inside->second];
    form.shows.insert(form.shows.end(), outside.shows.begin(), outside.shows.end());
    auto blocks = form.blocks;
    blocks.emplace_back(-1, false);
    add(form, blocks);
  }
  return forms_of_several_.emplace(step, std::move(result)).first->second;
}

std::set<std::pair<int, bool>> Trials::blocks_at(size_t step) const {
  std::set<std::pair<int, bool>> blocks;
  const auto add = [&](const SiteId& site) {
    if (site.layer >= 0) blocks.emplace(site.layer, site.stack == Stack::kEncoder);
  };
  for (const SiteId& site : judged_.fit(step).covers) add(site);
  add(judged_.value(step).site);
  return blocks;
}

bool Trials::is_long(size_t step) const { return blocks_at(step).size() > kMostBlocksAlone; }

/// The value a site names, so that second names are the same.
ValueId Trials::value_of(const SiteId& site) const {
  return judge_.right().find_value(site).value_or(kNoId);
}

std::set<ValueId> Trials::values_of(const std::vector<SiteId>& sites) const {
  std::set<ValueId> values;
  for (const SiteId& site : sites) values.insert(value_of(site));
  return values;
}

const std::set<ValueId>& Trials::values_at(size_t step) {
  const auto at = values_at_.find(step);
  if (at != values_at_.end()) return at->second;
  std::vector<SiteId> sites = judged_.fit(step).covers;
  sites.push_back(judged_.value(step).site);
  return values_at_.emplace(step, values_of(sites)).first->second;
}

bool Trials::shows_at(size_t step, const std::set<ValueId>& shows) {
  return std::ranges::any_of(values_at(step), [&](ValueId value) { return shows.contains(value); });
}

std::vector<const Form*> Trials::candidates(size_t step) {
  const std::set<ValueId>& values = values_at(step);
  std::set<std::pair<int, bool>> places;
  // Every name counts: the stream that enters a block is what the one before it leaves.
  for (const NamedValue& named : judge_.right().sites) {
    if (!values.contains(named.value)) continue;
    places.insert({named.site.layer, named.site.stack == Stack::kEncoder});
  }
  std::vector<const Form*> result;
  std::vector<const Form*> others;
  const auto add = [&](const std::vector<Form>& forms) {
    for (const Form& form : forms) {
      if (shows_in(form, values)) (is_known(form) ? result : others).push_back(&form);
    }
  };
  const size_t blocks = blocks_at(step).size();
  if (values.size() > 1) add(forms_of_several(step));
  for (const auto& [layer, encoder] : places) {
    if (layer < 0 || blocks <= kMostBlocksAlone) add(forms_of(layer, encoder));
  }
  result.insert(result.end(), others.begin(), others.end());
  return result;
}

Trial Trials::try_form(const Form& form, const AlignedValue& value, const Fit& before,
                       NumberSearch search) const {
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
    const bool published = search == NumberSearch::kUsual;
    std::optional<std::vector<int64_t>> rows;
    const auto error = [&](std::span<const double> tried) {
      const Edited edited = form.make(tried);
      if (!rows) rows = judge_.rows_for_numbers(value, edited, before, published);
      return judge_.local_of(value, edited, *rows);
    };
    const Solved solved =
        published ? best_usual(form.numbers, error, enough) : solve(form.numbers, error, enough);
    trial.numbers = solved.numbers;
    trial.at_edge = solved.at_edge;
    for (size_t n = 0; n < solved.numbers.size(); ++n) {
      const auto& usual = form.numbers[n].usual;
      trial.usual &= std::find(usual.begin(), usual.end(), solved.numbers[n]) != usual.end();
    }
    if (trial.numbers.empty()) return trial;
  }
  trial.fit = judge_.fit(value, form.make(trial.numbers), before);
  return trial.usual || trial.at_edge ? trial : with_short_numbers(trial, value, before);
}

/// What was solved for comes within round-off of the number in the code, which has few digits.
Trial Trials::with_short_numbers(const Trial& solved, const AlignedValue& value,
                                 const Fit& before) const {
  std::vector<double> numbers;
  for (size_t n = 0; n < solved.numbers.size(); ++n) {
    // Every whole number that is searched for is short.
    if (solved.form->numbers[n].whole) return solved;
    const std::optional<double> found = short_number(solved.numbers[n]);
    if (!found) return solved;
    numbers.push_back(*found);
  }
  Trial trial = solved;
  trial.fit = judge_.fit(value, solved.form->make(numbers), before);
  trial.numbers = std::move(numbers);
  trial.usual = true;
  return trial.holds() ? trial : solved;
}

Trial Trials::attempt(const Form& form, size_t step, NumberSearch search) const {
  check_cancel();
  Trial trial{.form = &form};
  try {
    trial = try_form(form, judged_.value(step), judged_.fit(step), search);
  } catch (const Error&) {
    trial.fit = {};  // an edit that cannot be made on this program
  }
  if (trial.fit.exact.error.empty()) {
    trial.fit.local = trial.fit.ratio = std::numeric_limits<double>::infinity();
  }
  return trial;
}

std::vector<Trial> Trials::attempt(std::span<const Form* const> forms, size_t step,
                                   NumberSearch search) const {
  std::vector<Trial> trials(forms.size());
  const auto count = std::ssize(forms);
  each_alone(
      count, options_.threads,
      [&](int64_t index) {
        const auto i = static_cast<size_t>(index);
        trials[i] = attempt(*forms[i], step, search);
      },
      [&](int64_t done) {
        show_progress(step, static_cast<double>(done) / static_cast<double>(count));
      });
  return trials;
}

int Trials::score(const Trial& trial) {
  int result = 0;
  const Edited edited = trial.form->make(trial.numbers);
  const std::set<ValueId> shows = values_of(trial.form->shows);
  const auto& steps = judged_.report().steps;
  for (size_t j = 0; j < steps.size(); ++j) {
    if (!shows_at(j, shows)) continue;
    if (steps[j].verdict == StepVerdict::kInherited && !judged_.fit(j).holds()) continue;
    const Fit fit = judge_.fit(judged_.value(j), edited, judged_.fit(j));
    const bool was_wrong = !judged_.fit(j).holds();
    if (was_wrong && fit.accounts && fit.holds()) result += 2;
    if (!was_wrong && !fit.holds()) result -= 1;
  }
  return result;
}

std::vector<std::pair<size_t, Fit>> Trials::explained_by(const Trial& trial,
                                                         const std::vector<bool>& done) {
  std::vector<std::pair<size_t, Fit>> result;
  const Edited edited = trial.form->make(trial.numbers);
  const std::set<ValueId> shows = values_of(trial.form->shows);
  const auto& steps = judged_.report().steps;
  for (size_t j = 0; j < steps.size(); ++j) {
    if (done[j] || steps[j].verdict != StepVerdict::kWrong) continue;
    if (!shows_at(j, shows)) continue;
    Fit fit = judge_.fit(judged_.value(j), edited, judged_.fit(j));
    if (fit.accounts && fit.holds()) result.emplace_back(j, std::move(fit));
  }
  return result;
}

}  // namespace mainstem
