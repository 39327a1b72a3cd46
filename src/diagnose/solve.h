#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "diagnose/causes.h"

namespace mainstem {

/// Numbers at which an error is smallest, and that error.
struct Solved {
  std::vector<double> numbers;
  double error = 0;
  /// A number that was searched for lies at the end of its range: what fits may lie beyond.
  bool at_edge = false;
};

/// Looks for the numbers of a form of a mistake that leave the least error: the usual values, then
/// the whole range, coarse and then finer. One or two numbers. `error` is called some hundred times
/// and may be anything that has a lowest place; it need not be smooth. Stops early at errors of
/// `enough` or less.
Solved solve(std::span<const FreeNumber> numbers,
             const std::function<double(std::span<const double>)>& error, double enough);
/// The number of two digits that this one stands for, if it is within 1e-4 of one.
std::optional<double> short_number(double number);
/// The usual values alone.
Solved best_usual(std::span<const FreeNumber> numbers,
                  const std::function<double(std::span<const double>)>& error, double enough);

}  // namespace mainstem
