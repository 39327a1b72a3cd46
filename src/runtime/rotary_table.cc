#include "runtime/rotary_table.h"

#include <algorithm>
#include <cmath>

namespace mainstem {
namespace {

std::vector<double> plain_frequencies(double base, int64_t width) {
  std::vector<double> result(static_cast<size_t>(width / 2));
  for (size_t j = 0; j < result.size(); ++j) {
    result[j] = std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(width));
  }
  return result;
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

RotaryFrequencies yarn(const RotarySpec& spec) {
  const RotaryScaling& scaling = spec.scaling;
  const auto width = static_cast<double>(spec.width);
  const auto context = static_cast<double>(scaling.original_context);
  // The pair that turns `turns` times over the original context.
  const auto pair_of = [&](double turns) {
    return width * std::log(context / (turns * 2 * M_PI)) / (2 * std::log(spec.base));
  };
  double low = pair_of(scaling.beta_fast);
  double high = pair_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;

  RotaryFrequencies result{plain_frequencies(spec.base, spec.width), 1};
  for (size_t j = 0; j < result.frequency.size(); ++j) {
    const double ramp = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    const double kept = 1 - ramp;
    result.frequency[j] *= kept + (1 - kept) / scaling.factor;
  }
  if (scaling.attention_factor) {
    result.attention_factor = *scaling.attention_factor;
  } else if (scaling.mscale && scaling.mscale_all_dim && *scaling.mscale != 0 &&
             *scaling.mscale_all_dim != 0) {
    result.attention_factor = yarn_mscale(scaling.factor, *scaling.mscale) /
                              yarn_mscale(scaling.factor, *scaling.mscale_all_dim);
  } else {
    result.attention_factor = yarn_mscale(scaling.factor, 1);
  }
  return result;
}

void scale_llama3(const RotaryScaling& scaling, std::vector<double>& frequency) {
  const auto context = static_cast<double>(scaling.original_context);
  for (double& f : frequency) {
    const double wavelength = 2 * M_PI / f;
    if (wavelength < context / scaling.high_freq_factor) continue;
    if (wavelength > context / scaling.low_freq_factor) {
      f /= scaling.factor;
      continue;
    }
    const double blend = (context / wavelength - scaling.low_freq_factor) /
                         (scaling.high_freq_factor - scaling.low_freq_factor);
    f = (1 - blend) * f / scaling.factor + blend * f;
  }
}

}  // namespace

bool goes_by_length(const RotarySpec& spec) {
  return spec.scaling.kind == RotaryScalingKind::kDynamic ||
         spec.scaling.kind == RotaryScalingKind::kLongRope;
}

RotaryFrequencies rotary_frequencies(const RotarySpec& spec, int64_t longest) {
  const RotaryScaling& scaling = spec.scaling;
  RotaryFrequencies result{plain_frequencies(spec.base, spec.width), 1};
  const auto divide = [&](const std::vector<double>& divisors) {
    for (size_t j = 0; j < result.frequency.size(); ++j) result.frequency[j] /= divisors[j];
  };
  switch (scaling.kind) {
    case RotaryScalingKind::kNone:
      break;
    case RotaryScalingKind::kLinear:
      for (double& f : result.frequency) f /= scaling.factor;
      break;
    case RotaryScalingKind::kDynamic: {
      const auto original = static_cast<double>(scaling.original_context);
      const double length = std::max(static_cast<double>(longest), original);
      const auto width = static_cast<double>(spec.width);
      const double growth = scaling.factor * length / original - (scaling.factor - 1);
      result.frequency = plain_frequencies(
          spec.base * std::pow(growth, width > 2 ? width / (width - 2) : 1.0), spec.width);
      break;
    }
    case RotaryScalingKind::kYarn:
      return yarn(spec);
    case RotaryScalingKind::kLlama3:
      scale_llama3(scaling, result.frequency);
      break;
    case RotaryScalingKind::kLongRope:
      divide(longest > scaling.original_context ? scaling.long_divisors : scaling.short_divisors);
      result.attention_factor = scaling.attention_factor.value_or(
          scaling.factor <= 1
              ? 1.0
              : std::sqrt(1 + std::log(scaling.factor) /
                                  std::log(static_cast<double>(scaling.original_context))));
      break;
    case RotaryScalingKind::kDivisors:
      divide(scaling.short_divisors);
      break;
  }
  return result;
}

}  // namespace mainstem
