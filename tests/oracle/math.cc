#include "oracle/math.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace mainstem::oracle {
namespace {

Measured like(const Matrix& x) {
  const size_t width = x.empty() ? 0 : x[0].size();
  Measured result;
  result.value.assign(x.size(), Row(width, 0.0));
  result.magnitude = result.value;
  return result;
}

template <typename F>
Measured element_wise(const Matrix& x, F&& f) {
  Measured result = like(x);
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t i = 0; i < x[t].size(); ++i) {
      const auto [value, magnitude] = f(x[t][i]);
      result.value[t][i] = value;
      result.magnitude[t][i] = magnitude;
    }
  }
  return result;
}

struct Point {
  double value, magnitude;
};

}  // namespace

// GELU: Hendrycks & Gimpel, arXiv:1606.08415 §2; squared ReLU: arXiv:2109.08668.
double activate(Activation kind, double x) {
  const double pi = std::numbers::pi;
  switch (kind) {
    case Activation::kRelu:
      return std::fmax(x, 0.0);
    case Activation::kReluSquared:
      return std::pow(std::fmax(x, 0.0), 2);
    case Activation::kGeluErf:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * std::pow(x, 3))));
    case Activation::kSilu:
      return x * (1 / (1 + std::exp(-x)));
    case Activation::kQuickGelu:
      return x * (1 / (1 + std::exp(-1.702 * x)));
  }
  throw std::logic_error("activation");
}

Measured linear(const Matrix& x, const std::vector<double>& weight, const std::vector<double>* bias,
                int64_t outputs) {
  Measured result;
  for (const Row& row : x) {
    Row y(static_cast<size_t>(outputs)), magnitude(y.size());
    if (weight.size() != y.size() * row.size()) throw std::logic_error("linear: shape of W");
    if (bias != nullptr && bias->size() != y.size()) throw std::logic_error("linear: shape of b");
    for (size_t n = 0; n < y.size(); ++n) {
      for (size_t i = 0; i < row.size(); ++i) {
        const double term = row[i] * weight[n * row.size() + i];
        y[n] += term;
        magnitude[n] += std::abs(term);
      }
      if (bias == nullptr) continue;
      y[n] += (*bias)[n];
      magnitude[n] += std::abs((*bias)[n]);
    }
    result.value.push_back(y);
    result.magnitude.push_back(magnitude);
    result.terms = static_cast<int64_t>(row.size()) + 1;
  }
  return result;
}

Measured norm(const Matrix& x, const NormSpec& spec, int64_t group,
              const std::vector<double>* weight, const std::vector<double>* bias) {
  Measured result = like(x);
  result.terms = group;
  const auto n = static_cast<size_t>(group);
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t start = 0; start < x[t].size(); start += n) {
      double mean = 0;
      double mean_square = 0;
      for (size_t i = start; i < start + n; ++i) {
        mean += x[t][i] / static_cast<double>(n);
        mean_square += x[t][i] * x[t][i] / static_cast<double>(n);
      }
      if (spec.kind == NormKind::kRms) mean = 0;
      double variance = 0;
      for (size_t i = start; i < start + n; ++i) {
        variance += (x[t][i] - mean) * (x[t][i] - mean) / static_cast<double>(n);
      }
      const double root = std::sqrt(variance + spec.eps);
      // Cancellation in x - mean also enters the variance.
      const double spread = spec.kind == NormKind::kRms ? 1 : mean_square / (variance + spec.eps);
      for (size_t i = start; i < start + n; ++i) {
        double y = (x[t][i] - mean) / root;
        double magnitude = (std::abs(x[t][i]) + std::abs(mean)) / root + std::abs(y) * spread;
        const auto entry = [&](const std::vector<double>& list) {
          return list.size() == n ? list[i - start] : list.at(i);
        };
        if (weight != nullptr) {
          const double w = spec.weight_offset + entry(*weight);
          magnitude *= std::abs(w) + std::abs(spec.weight_offset);
          y *= w;
        }
        if (bias != nullptr) {
          y += entry(*bias);
          magnitude += std::abs(entry(*bias));
        }
        result.value[t][i] = y;
        result.magnitude[t][i] = magnitude;
      }
    }
  }
  return result;
}

Measured exact(const Matrix& x) {
  return element_wise(x, [](double v) { return Point{v, std::abs(v)}; });
}

Measured add(const std::vector<Measured>& terms) {
  Measured result = like(terms.at(0).value);
  for (const Measured& term : terms) {
    for (size_t t = 0; t < term.value.size(); ++t) {
      for (size_t i = 0; i < term.value[t].size(); ++i) {
        result.value[t].at(i) += term.value[t][i];
        result.magnitude[t].at(i) += term.magnitude[t][i];
      }
    }
    result.terms += term.terms;
  }
  return result;
}

Measured scale(const Measured& x, double factor) {
  Measured result = x;
  for (Row& row : result.value) {
    for (double& v : row) v *= factor;
  }
  for (Row& row : result.magnitude) {
    for (double& v : row) v *= std::abs(factor);
  }
  return result;
}

Measured soft_cap(const Measured& x, double cap) {
  Measured result = x;
  for (size_t t = 0; t < x.value.size(); ++t) {
    for (size_t i = 0; i < x.value[t].size(); ++i) {
      const double y = cap * std::tanh(x.value[t][i] / cap);
      result.value[t][i] = y;
      result.magnitude[t][i] += std::abs(y);
    }
  }
  return result;
}

Measured activation(const Matrix& x, Activation kind) {
  return element_wise(x, [&](double v) {
    const double y = activate(kind, v);
    // A rounded argument moves the result by slope times argument; the slopes are at most 2.
    const double slope = kind == Activation::kReluSquared ? 2 * std::abs(v) : 2;
    return Point{y, std::abs(y) + slope * std::abs(v)};
  });
}

Measured multiply(const Matrix& a, const Matrix& b) {
  Measured result = like(a);
  for (size_t t = 0; t < a.size(); ++t) {
    for (size_t i = 0; i < a[t].size(); ++i) {
      result.value[t][i] = a[t][i] * b.at(t).at(i);
      result.magnitude[t][i] = std::abs(result.value[t][i]);
    }
  }
  return result;
}

// "Attention Is All You Need" §3.5: PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(same).
// Marian puts the sines (the larger half where D is odd) before the cosines.
Measured sinusoids(const std::vector<int64_t>& positions, int64_t width, bool halves) {
  Measured result;
  for (int64_t position : positions) {
    Row row(static_cast<size_t>(width));
    const int64_t sines = (width + 1) / 2;
    for (int64_t i = 0; 2 * i < width; ++i) {
      const double angle =
          static_cast<double>(position) /
          std::pow(10000.0, static_cast<double>(2 * i) / static_cast<double>(width));
      const int64_t sine_at = halves ? i : 2 * i;
      const int64_t cosine_at = halves ? sines + i : 2 * i + 1;
      row.at(static_cast<size_t>(sine_at)) = std::sin(angle);
      if (cosine_at < width) row.at(static_cast<size_t>(cosine_at)) = std::cos(angle);
    }
    result.value.push_back(row);
    result.magnitude.push_back(Row(row.size(), 1.0 + static_cast<double>(position)));
  }
  return result;
}

}  // namespace mainstem::oracle
