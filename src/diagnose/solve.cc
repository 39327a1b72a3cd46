#include "diagnose/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace mainstem {
namespace {

constexpr int kCoarse = 96;
constexpr int kMinima = 3;
constexpr int kFine = 60;
constexpr double kGolden = 0.6180339887498949;

using Error = std::function<double(std::span<const double>)>;

double to_axis(const FreeNumber& number, double value) {
  return number.logarithmic ? std::log(value) : value;
}
double from_axis(const FreeNumber& number, double at) {
  const double value = number.logarithmic ? std::exp(at) : at;
  return number.whole ? std::round(value) : value;
}

/// Keeps the best that was seen.
class Search {
 public:
  Search(const Error& error, double enough) : error_(error), enough_(enough) {
    best_.error = std::numeric_limits<double>::infinity();
  }
  double at(std::span<const double> numbers) {
    double error = error_(numbers);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error < best_.error) best_ = {{numbers.begin(), numbers.end()}, error};
    return error;
  }
  bool done() const { return best_.error <= enough_; }
  const Solved& best() const { return best_; }

 private:
  const Error& error_;
  double enough_;
  Solved best_;
};

/// All combinations of the usual values.
void try_usual(std::span<const FreeNumber> numbers, Search& search) {
  std::vector<size_t> at(numbers.size());
  for (;;) {
    std::vector<double> values;
    for (size_t i = 0; i < numbers.size(); ++i) values.push_back(numbers[i].usual[at[i]]);
    search.at(values);
    if (search.done()) return;
    size_t i = 0;
    while (i < numbers.size() && ++at[i] == numbers[i].usual.size()) at[i++] = 0;
    if (i == numbers.size()) return;
  }
}

/// Places of the axis to look at first.
std::vector<double> coarse_places(const FreeNumber& number) {
  std::vector<double> places;
  const double low = to_axis(number, number.low);
  const double high = to_axis(number, number.high);
  if (number.whole && number.high - number.low <= 2 * kCoarse) {
    const auto count = static_cast<int>(number.high - number.low) + 1;
    for (int i = 0; i < count; ++i) places.push_back(to_axis(number, number.low + i));
    return places;
  }
  for (int i = 0; i <= kCoarse; ++i) places.push_back(low + (high - low) * i / kCoarse);
  return places;
}

/// Within a coarse step of an end of the range; few whole numbers are all looked at.
bool is_at_edge(const FreeNumber& number, double value) {
  if (std::find(number.usual.begin(), number.usual.end(), value) != number.usual.end())
    return false;
  if (number.whole && number.high - number.low <= 2 * kCoarse) return false;
  const double low = to_axis(number, number.low);
  const double high = to_axis(number, number.high);
  const double at = to_axis(number, value);
  const double step = (high - low) / kCoarse;
  return at < low + step || at > high - step;
}

/// One number, the others held.
void search_axis(std::span<const FreeNumber> numbers, size_t axis, std::vector<double> held,
                 Search& search) {
  const FreeNumber& number = numbers[axis];
  const auto error = [&](double place) {
    held[axis] = from_axis(number, place);
    return search.at(held);
  };
  const std::vector<double> places = coarse_places(number);
  std::vector<double> errors;
  for (double place : places) {
    errors.push_back(error(place));
    if (search.done()) return;
  }
  std::vector<size_t> minima;
  for (size_t i = 0; i < places.size(); ++i) {
    const bool falls = i == 0 || errors[i] <= errors[i - 1];
    const bool rises = i + 1 == places.size() || errors[i] <= errors[i + 1];
    if (falls && rises) minima.push_back(i);
  }
  std::sort(minima.begin(), minima.end(),
            [&](size_t a, size_t b) { return errors[a] < errors[b]; });
  if (minima.size() > kMinima) minima.resize(kMinima);
  for (size_t i : minima) {
    double low = places[i == 0 ? 0 : i - 1];
    double high = places[std::min(i + 1, places.size() - 1)];
    double left = high - kGolden * (high - low);
    double right = low + kGolden * (high - low);
    double at_left = error(left);
    double at_right = error(right);
    for (int n = 0; n < kFine && !search.done(); ++n) {
      if (number.whole && from_axis(number, high) - from_axis(number, low) < 1) break;
      if (at_left <= at_right) {
        high = right;
        right = left;
        at_right = at_left;
        left = high - kGolden * (high - low);
        at_left = error(left);
      } else {
        low = left;
        left = right;
        at_left = at_right;
        right = low + kGolden * (high - low);
        at_right = error(right);
      }
    }
    if (search.done()) return;
  }
}

}  // namespace

std::optional<double> short_number(double number) {
  if (number == 0 || !std::isfinite(number)) return {};
  constexpr double kClose = 1e-4;
  const double found = std::strtod(fmt::format("{:.1e}", number).c_str(), nullptr);
  if (std::fabs(found - number) > kClose * std::fabs(number)) return {};
  return found;
}

Solved best_usual(std::span<const FreeNumber> numbers, const Error& error, double enough) {
  Search search(error, enough);
  try_usual(numbers, search);
  return search.best();
}

Solved solve(std::span<const FreeNumber> numbers, const Error& error, double enough) {
  Search search(error, enough);
  try_usual(numbers, search);
  // Two numbers: one after the other, twice, from the best so far.
  const int rounds = numbers.size() > 1 ? 2 : 1;
  for (int round = 0; round < rounds && !search.done(); ++round) {
    for (size_t axis = 0; axis < numbers.size() && !search.done(); ++axis) {
      const std::vector<double> held = search.best().numbers.empty()
                                           ? std::vector<double>(numbers.size(), 0.0)
                                           : search.best().numbers;
      search_axis(numbers, axis, held, search);
    }
  }
  Solved best = search.best();
  for (size_t i = 0; i < best.numbers.size(); ++i) {
    best.at_edge = best.at_edge || is_at_edge(numbers[i], best.numbers[i]);
  }
  return best;
}

}  // namespace mainstem
