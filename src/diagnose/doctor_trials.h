#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "diagnose/causes.h"
#include "diagnose/diff_model.h"
#include "mainstem/diff.h"

namespace mainstem {

/// With numbers that nobody publishes, and that are not short, a mistake must fit better: there are
/// many such numbers.
inline constexpr double kSolvedBand = 2;

/// A form of a mistake beside one value.
struct Trial {
  const Form* form = nullptr;
  std::vector<double> numbers = {};
  Fit fit = {};
  int score = 0;         ///< wrong steps explained, less those it would make wrong
  size_t order = 0;      ///< among those tried
  bool usual = true;     ///< the numbers are published or short, or there are none
  bool at_edge = false;  ///< a number lies at the end of where it was looked for
  bool holds() const {
    return fit.accounts && !at_edge && fit.holds() && (usual || fit.ratio <= kSolvedBand);
  }
};

/// What makes two forms one mistake, whatever the block.
std::string known_key(const Form& form);
/// The same with its numbers.
std::string known_key(const Form& form, std::span<const double> numbers);

/// How the numbers of a form are found.
enum class NumberSearch {
  kUsual,   ///< the published ones alone
  kSolved,  ///< the whole range
};

/// Tries forms of mistakes on the steps of one judged dump, and remembers what was found.
class Trials {
 public:
  /// Both must outlive this object, which keeps the forms it has made.
  Trials(JudgedDump& judged, const DiffOptions& options)
      : judged_(judged), judge_(judged.judge()), options_(options) {}

  /// Every form that changes the step or what is judged with it; those of mistakes that were found
  /// before come first. A chain of several blocks has forms that are made in all of them, and a
  /// long one no others of blocks.
  std::vector<const Form*> candidates(size_t step);
  /// The blocks in which the step and what is judged with it lie, and whether they are the
  /// encoder's.
  std::set<std::pair<int, bool>> blocks_at(size_t step) const;
  /// The chain is so long that every number cannot be searched for in every form.
  bool is_long(size_t step) const;
  /// The form beside the step's value. One that cannot be made here leaves an infinite error.
  Trial attempt(const Form& form, size_t step, NumberSearch search) const;
  /// The same of many, on all threads.
  std::vector<Trial> attempt(std::span<const Form* const> forms, size_t step,
                             NumberSearch search) const;
  /// How many of the dump's values the mistake explains, less those it cannot be in.
  int score(const Trial& trial);
  /// The wrong steps that show the mistake and fit it; those for which `done` is set are passed
  /// over.
  std::vector<std::pair<size_t, Fit>> explained_by(const Trial& trial,
                                                   const std::vector<bool>& done);

  bool is_known(const Form& form) const { return known_.contains(known_key(form)); }
  void remember(const Trial& trial) { known_.try_emplace(known_key(*trial.form), trial.numbers); }

  /// Values of the step and of all that is judged with it.
  const std::set<ValueId>& values_at(size_t step);
  JudgedDump& judged() { return judged_; }
  void check_cancel() const;
  /// Says how far the search is: at this step, with this share of its forms tried.
  void show_progress(size_t step, double share) const;

 private:
  const std::vector<Form>& forms_of(int layer, bool encoder);
  const std::vector<Form>& forms_of_several(size_t step);
  bool shows_in(const Form& form, const std::set<ValueId>& values) const;
  Trial try_form(const Form& form, const AlignedValue& value, const Fit& before,
                 NumberSearch search) const;
  Trial with_short_numbers(const Trial& solved, const AlignedValue& value, const Fit& before) const;
  /// One of the values is the step's, or judged with it.
  bool shows_at(size_t step, const std::set<ValueId>& shows);
  ValueId value_of(const SiteId& site) const;
  std::set<ValueId> values_of(const std::vector<SiteId>& sites) const;

  JudgedDump& judged_;
  Judge& judge_;
  const DiffOptions& options_;
  std::map<std::pair<int, bool>, std::vector<Form>> forms_;
  std::map<size_t, std::vector<Form>> forms_of_several_;
  std::map<size_t, std::set<ValueId>> values_at_;
  std::map<std::string, std::vector<double>> known_;  ///< mistakes found, with their numbers
};

}  // namespace mainstem
