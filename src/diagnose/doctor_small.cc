#include "diagnose/doctor_small.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "mainstem/error.h"

namespace mainstem {
namespace {

/// What is explained must differ by the square of so many standard deviations to tell two apart.
constexpr double kToldApart = 25;
/// Of several published numbers one is proved only where the others are far off.
constexpr double kNumberVague = 0.02;

/// Forms whose change could hide in round-off, with none or one open number; what only rounds
/// otherwise is no mistake here: sound implementations do either.
bool may_hide(const Form& form) { return form.numbers.size() <= 1 && !form.only_rounds; }

}  // namespace

bool SmallMistake::proved() const {
  return rivals.empty() && (numbers.empty() || regression.deviation() <= kNumberVague);
}

namespace {

/// One kind of step in all blocks.
class SmallSearch {
 public:
  explicit SmallSearch(Trials& trials) : trials_(trials), judge_(trials.judged().judge()) {}

  std::vector<SmallMistake> run() {
    const ArithmeticType type = judge_.arithmetic();
    if (type != ArithmeticType::kBF16 && type != ArithmeticType::kF16) return {};
    std::map<std::string, std::vector<size_t>> kinds;
    const auto& steps = trials_.judged().report().steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool whole = trials_.judged().value(i).complete() && steps[i].covers.empty();
      if (steps[i].verdict != StepVerdict::kOk || !whole) continue;
      SiteId kind = steps[i].site;
      kind.layer = -1;
      kinds[to_string(kind)].push_back(i);
    }
    std::vector<std::vector<SmallMistake>> best;
    for (const auto& [kind, members] : kinds) {
      best.push_back(best_of(members));
      if (best.back().empty()) best.pop_back();
    }
    std::vector<SmallMistake> found;
    for (const std::vector<SmallMistake>& equal : best) found.push_back(widest(equal, best));
    std::sort(found.begin(), found.end(), [](const SmallMistake& a, const SmallMistake& b) {
      return a.steps.front() < b.steps.front();
    });
    return found;
  }

 private:
  /// A form with one of its published numbers, beside one step.
  struct Candidate {
    const Form* form = nullptr;
    std::vector<double> numbers = {};
    std::string key = {};
    std::optional<Regression> regression = {};
  };
  /// Over all steps, by key.
  using Mistakes = std::map<std::string, SmallMistake>;

  std::vector<Candidate> candidates(size_t i) {
    std::vector<Candidate> result;
    const auto add = [&](const Form* form, std::vector<double> numbers) {
      std::string key = known_key(*form, numbers);
      result.push_back({form, std::move(numbers), std::move(key)});
    };
    for (const Form* form : trials_.candidates(i)) {
      if (!may_hide(*form)) continue;
      if (form->numbers.empty()) add(form, {});
      for (const FreeNumber& open : form->numbers) {
        for (const double number : open.usual) add(form, {number});
      }
    }
    return result;
  }

  /// The mistake that explains most, over the steps that have it in them: each form of it that
  /// makes the same values.
  std::vector<SmallMistake> best_of(const std::vector<size_t>& members) {
    Mistakes shown = all_shown(members);
    if (shown.empty()) return {};
    SmallMistake& best = shown.at(best_key(shown));
    add_rivals(best, shown);
    std::vector<SmallMistake> equal{best};
    for (const auto& [key, other] : shown) {
      if (&other == &best || cause_of(other) != cause_of(best) || !same_values(other, best))
        continue;
      equal.push_back(best);
      equal.back().forms = other.forms;
      equal.back().numbers = other.numbers;
    }
    return equal;
  }

  /// The mistakes that show in one or several of the steps, or in all of them together.
  Mistakes all_shown(const std::vector<size_t>& members) {
    // What is no round-off in the first of the steps is none in the others.
    const std::set<std::string> hidden = hidden_at(members.front());
    if (hidden.empty()) return {};
    std::vector<std::vector<Candidate>> beside;
    for (size_t i : members) {
      beside.push_back(candidates(i));
      std::erase_if(beside.back(),
                    [&](const Candidate& each) { return !hidden.contains(each.key); });
    }
    each_alone(std::ssize(members), judge_.options().threads, [&](int64_t member) {
      const auto m = static_cast<size_t>(member);
      const StepResidual residual(judge_, trials_.judged().value(members[m]));
      for (Candidate& each : beside[m]) {
        trials_.check_cancel();
        each.regression = regression_of(residual, *each.form, each.numbers);
      }
    });
    Mistakes shown;
    Mistakes together;
    for (size_t m = 0; m < members.size(); ++m) {
      for (const Candidate& each : beside[m]) {
        if (!each.regression) continue;
        note(together[each.key], each, members[m]);
        if (each.regression->shows()) note(shown[each.key], each, members[m]);
      }
    }
    // One block may be too short a text to tell by, and all of them long enough.
    for (auto& [key, mistake] : together) {
      if (mistake.regression.shows()) shown[key] = std::move(mistake);
    }
    return shown;
  }

  /// Of those that account for as much as any the most usual form, with the nearest number.
  static std::string best_key(const Mistakes& shown) {
    const auto explained = [](const auto& each) { return each.second.regression.explained(); };
    const auto less = [&](const auto& a, const auto& b) { return explained(a) < explained(b); };
    const auto most = std::max_element(shown.begin(), shown.end(), less);
    auto best = most;
    for (auto at = shown.begin(); at != shown.end(); ++at) {
      const bool earlier = at->second.order < best->second.order;
      if (earlier && as_good(most->second, at->second)) best = at;
    }
    const std::string form = known_key(*best->second.forms.front());
    for (auto at = shown.begin(); at != shown.end(); ++at) {
      const bool own = known_key(*at->second.forms.front()) == form;
      if (own && less(*best, *at)) best = at;
    }
    return best->first;
  }

  /// Of forms that make the same values in one kind of step ("norm1", "the norms of the stream")
  /// that which is found in most kinds, and reaches no farther than it must.
  static const SmallMistake& widest(const std::vector<SmallMistake>& equal,
                                    const std::vector<std::vector<SmallMistake>>& all) {
    const auto rank = [&](const SmallMistake& mistake) {
      const std::string key = key_of(mistake);
      const auto kinds = std::count_if(all.begin(), all.end(), [&](const auto& others) {
        return std::any_of(others.begin(), others.end(),
                           [&](const SmallMistake& other) { return key_of(other) == key; });
      });
      return std::tuple(kinds, -std::ssize(mistake.forms.front()->shows));
    };
    return *std::max_element(
        equal.begin(), equal.end(),
        [&](const SmallMistake& a, const SmallMistake& b) { return rank(a) < rank(b); });
  }

  static const std::string& cause_of(const SmallMistake& mistake) {
    return mistake.forms.front()->cause;
  }
  static std::string key_of(const SmallMistake& mistake) {
    return known_key(*mistake.forms.front(), mistake.numbers);
  }
  static bool same_values(const SmallMistake& a, const SmallMistake& b) {
    return a.steps == b.steps && a.regression.residual_change == b.regression.residual_change &&
           a.regression.change_change == b.regression.change_change;
  }

  /// Accounts for as much of what differs in the same steps.
  static bool as_good(const SmallMistake& mistake, const SmallMistake& other) {
    const Regression& own = mistake.regression;
    const double least = own.explained() - kToldApart * own.variance();
    return other.steps == mistake.steps && other.regression.explained() >= least;
  }

  /// Other mistakes among those that show, and those with a number that is chosen for it: another
  /// eps makes nearly what an eps outside of the root makes.
  void add_rivals(SmallMistake& mistake, const Mistakes& shown) {
    std::vector<const SmallMistake*> told;
    const auto is_told = [&](const SmallMistake& other) {
      return std::any_of(told.begin(), told.end(), [&](const SmallMistake* each) {
        return cause_of(*each) == cause_of(other) && same_values(*each, other);
      });
    };
    // First the same form with other numbers, then others by how usual they are.
    std::vector<const SmallMistake*> others;
    for (const auto& [key, other] : shown) {
      if (as_good(mistake, other)) others.push_back(&other);
    }
    const std::string own = known_key(*mistake.forms.front());
    std::sort(others.begin(), others.end(), [&](const SmallMistake* a, const SmallMistake* b) {
      const auto rank = [&](const SmallMistake* each) {
        return std::pair(known_key(*each->forms.front()) != own, each->order);
      };
      return rank(a) < rank(b);
    });
    for (const SmallMistake* other : others) {
      const FormAndNumbers rival{other->forms.front(), other->numbers};
      if (known_key(*rival.form) == own) {
        if (other->numbers != mistake.numbers) {
          mistake.other_numbers.push_back(other->numbers.front());
        }
      } else if (!is_told(*other)) {
        (same_values(mistake, *other) ? mistake.same : mistake.rivals).push_back(rival);
      }
      told.push_back(other);
    }
    Mistakes chosen;
    for (size_t i : mistake.steps) {
      const StepResidual residual(judge_, trials_.judged().value(i));
      for (const Form* other : trials_.candidates(i)) {
        if (other->numbers.size() != 1 || other->only_rounds) continue;
        if (other->cause == cause_of(mistake)) continue;
        if (const auto found = with_a_number(residual, *other)) {
          note(chosen[found->key], *found, i);
        }
      }
    }
    for (const auto& [key, other] : chosen) {
      const bool known = std::any_of(
          mistake.rivals.begin(), mistake.rivals.end(),
          [&](const FormAndNumbers& rival) { return rival.form->cause == cause_of(other); });
      if (!known && as_good(mistake, other)) mistake.rivals.push_back({other.forms.front(), {}});
    }
  }

  /// With the first of the usual numbers that changes anything, and no number in the key: any other
  /// changes nearly a multiple of the same.
  std::optional<Candidate> with_a_number(const StepResidual& residual, const Form& form) {
    for (const double number : form.numbers[0].usual) {
      trials_.check_cancel();
      if (auto regression = regression_of(residual, form, {number})) {
        return Candidate{&form, {}, known_key(form), regression};
      }
    }
    return {};
  }

  /// Keys of the candidates with which the step would be round-off, too.
  std::set<std::string> hidden_at(size_t i) {
    const Fit& fit = trials_.judged().fit(i);
    const AlignedValue& value = trials_.judged().value(i);
    const std::vector<Candidate> all = candidates(i);
    std::vector<uint8_t> hidden(all.size());
    each_alone(std::ssize(all), judge_.options().threads, [&](int64_t index) {
      const auto c = static_cast<size_t>(index);
      trials_.check_cancel();
      try {
        const Edited edited = all[c].form->make(all[c].numbers);
        const std::vector<int64_t> rows = judge_.rows_for_numbers(value, edited, fit, false);
        hidden[c] = judge_.local_of(value, edited, rows) <= kRatioBand * fit.envelope;
      } catch (const Error&) {
        hidden[c] = 0;  // an edit that cannot be made on this program
      }
    });
    std::set<std::string> keys;
    for (size_t c = 0; c < all.size(); ++c) {
      if (hidden[c] != 0) keys.insert(all[c].key);
    }
    return keys;
  }

  static std::optional<Regression> regression_of(const StepResidual& residual, const Form& form,
                                                 const std::vector<double>& numbers) {
    try {
      const Regression regression = residual.beside(form.make(numbers));
      if (regression.change_change > 0) return regression;
    } catch (const Error&) {
      return {};
    }
    return {};
  }

  void note(SmallMistake& mistake, const Candidate& candidate, size_t i) {
    if (mistake.steps.empty()) mistake.order = count_++;
    mistake.numbers = candidate.numbers;
    mistake.steps.push_back(i);
    mistake.forms.push_back(candidate.form);
    mistake.regression.add(*candidate.regression);
  }

  Trials& trials_;
  Judge& judge_;
  size_t count_ = 0;
};

}  // namespace

std::vector<SmallMistake> small_mistakes(Trials& trials) { return SmallSearch(trials).run(); }

}  // namespace mainstem
