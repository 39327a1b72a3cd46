// Rotary positions: Su et al., arXiv:2104.09864 §3.2.2, and the ways to stretch them.

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <stdexcept>

#include "oracle/math.h"

namespace mainstem::oracle {
namespace {

/// theta_j = base^(-2j/width).
double theta(double base, int64_t width, int64_t pair) {
  return 1.0 / std::pow(base, 2.0 * static_cast<double>(pair) / static_cast<double>(width));
}

/// How much of pair j is stretched: 0 for pairs that turn often over the original context, 1 for
/// those that turn rarely (YaRN, arXiv:2309.00071 §3.2, in the form of its published code).
double yarn_stretched(const RotarySpec& spec, int64_t pair) {
  const RotaryScaling& s = spec.scaling;
  const auto correction_dim = [&](double rotations) {
    return static_cast<double>(spec.width) *
           std::log(static_cast<double>(s.original_context) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(spec.base));
  };
  double low = correction_dim(s.beta_fast);
  double high = correction_dim(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  if (low < 0) low = 0;
  if (high > static_cast<double>(spec.width - 1)) high = static_cast<double>(spec.width - 1);
  if (low == high) high += 0.001;  // as published, against a division by zero
  const double ramp = (static_cast<double>(pair) - low) / (high - low);
  return ramp < 0 ? 0 : (ramp > 1 ? 1 : ramp);
}

double yarn_amplitude(const RotaryScaling& s) {
  if (s.attention_factor) return *s.attention_factor;
  const auto term = [&](double multiplier) {
    return s.factor > 1 ? 0.1 * multiplier * std::log(s.factor) + 1 : 1.0;
  };
  if (s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0) {
    return term(*s.mscale) / term(*s.mscale_all_dim);
  }
  return term(1);
}

/// Llama 3.1: pairs with a short wavelength stay, long ones are slowed, those between blend.
double llama3(const RotaryScaling& s, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto context = static_cast<double>(s.original_context);
  const double longest_kept = context / s.high_freq_factor;
  const double shortest_slowed = context / s.low_freq_factor;
  if (wavelength < longest_kept) return frequency;
  if (wavelength > shortest_slowed) return frequency / s.factor;
  const double a =
      (context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - a) * (frequency / s.factor) + a * frequency;
}

}  // namespace

Turns rotary_turns(const RotarySpec& spec, int64_t longest) {
  const RotaryScaling& s = spec.scaling;
  Turns turns;
  for (int64_t j = 0; 2 * j < spec.width; ++j) {
    const double plain = theta(spec.base, spec.width, j);
    const auto at = static_cast<size_t>(j);
    double frequency = 0;
    switch (s.kind) {
      case RotaryScalingKind::kNone:
        frequency = plain;
        break;
      case RotaryScalingKind::kLinear:
        frequency = plain / s.factor;
        break;
      case RotaryScalingKind::kDynamic: {
        const auto context = static_cast<double>(s.original_context);
        const double n = std::max(static_cast<double>(longest), context);
        const auto r = static_cast<double>(spec.width);
        const double grown =
            spec.base * std::pow(s.factor * n / context - (s.factor - 1), r / (r - 2));
        frequency = theta(grown, spec.width, j);
        break;
      }
      case RotaryScalingKind::kYarn: {
        const double stretched = yarn_stretched(spec, j);
        frequency = plain / s.factor * stretched + plain * (1 - stretched);
        turns.amplitude = yarn_amplitude(s);
        break;
      }
      case RotaryScalingKind::kLlama3:
        frequency = llama3(s, plain);
        break;
      case RotaryScalingKind::kLongRope: {
        const bool is_long = longest > s.original_context;
        frequency = plain / (is_long ? s.long_divisors : s.short_divisors).at(at);
        turns.amplitude = 1;
        if (s.factor > 1) {
          turns.amplitude =
              std::sqrt(1 + std::log(s.factor) / std::log(static_cast<double>(s.original_context)));
        }
        if (s.attention_factor) turns.amplitude = *s.attention_factor;
        break;
      }
      case RotaryScalingKind::kDivisors:
        frequency = plain / s.short_divisors.at(at);
        break;
    }
    turns.frequency.push_back(frequency);
  }
  return turns;
}

Measured rotate(const Matrix& x, const RotarySpec& spec, int64_t head_width,
                const std::vector<int64_t>& positions) {
  const int64_t longest = *std::max_element(positions.begin(), positions.end()) + 1;
  const Turns turns = rotary_turns(spec, longest);
  const int64_t pairs = spec.width / 2;
  Measured result{x, x, 2};
  for (size_t t = 0; t < x.size(); ++t) {
    for (double& m : result.magnitude[t]) m = std::abs(m);
    for (int64_t head = 0; head < static_cast<int64_t>(x[t].size()); head += head_width) {
      for (int64_t j = 0; j < pairs; ++j) {
        const bool split = spec.pairing == RotaryPairing::kHalfSplit;
        const auto re = static_cast<size_t>(head + (split ? j : 2 * j));
        const auto im = static_cast<size_t>(head + (split ? j + pairs : 2 * j + 1));
        const double angle =
            static_cast<double>(positions[t]) * turns.frequency[static_cast<size_t>(j)];
        const std::complex<double> turned =
            std::complex<double>(x[t][re], x[t][im]) * std::polar(turns.amplitude, angle);
        result.value[t][re] = turned.real();
        result.value[t][im] = turned.imag();
        // The angle itself is rounded too.
        const double magnitude =
            turns.amplitude * (std::abs(x[t][re]) + std::abs(x[t][im])) * (1 + std::abs(angle));
        result.magnitude[t][re] = result.magnitude[t][im] = magnitude;
      }
    }
  }
  return result;
}

}  // namespace mainstem::oracle
