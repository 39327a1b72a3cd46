#pragma once

#include <cstdint>
#include <vector>

#include "mainstem/spec.h"

// The oracle's formulas, one row or one number at a time.

namespace mainstem::oracle {

using Row = std::vector<double>;
/// T rows of equal width.
using Matrix = std::vector<Row>;

/// A result and, beside it, the sum of the absolute terms it was made of.
struct Measured {
  Matrix value, magnitude;
  int64_t terms = 1;
};

double activate(Activation kind, double x);

/// y = x W^T + b, W row-major [outputs, width of x].
Measured linear(const Matrix& x, const std::vector<double>& weight, const std::vector<double>* bias,
                int64_t outputs);

/// Norm over consecutive groups of `group` channels. Weights and biases hold one entry for each
/// channel of a group, or for each channel of the row.
Measured norm(const Matrix& x, const NormSpec& spec, int64_t group,
              const std::vector<double>* weight, const std::vector<double>* bias);

/// Given values: their own size is all there is to round.
Measured exact(const Matrix& x);
Measured add(const std::vector<Measured>& terms);
Measured scale(const Measured& x, double factor);
Measured soft_cap(const Measured& x, double cap);
Measured activation(const Matrix& x, Activation kind);
Measured multiply(const Matrix& a, const Matrix& b);

/// Frequency of every pair and the factor on cosine and sine, for a pass whose longest position
/// is `longest` - 1.
struct Turns {
  std::vector<double> frequency;
  double amplitude = 1;
};
Turns rotary_turns(const RotarySpec& spec, int64_t longest);

/// Turns the first channels of each head of `head_width` channels.
Measured rotate(const Matrix& x, const RotarySpec& spec, int64_t head_width,
                const std::vector<int64_t>& positions);

/// Computed positions of "Attention Is All You Need" §3.5, or Marian's arrangement of them.
Measured sinusoids(const std::vector<int64_t>& positions, int64_t width, bool halves);

}  // namespace mainstem::oracle
