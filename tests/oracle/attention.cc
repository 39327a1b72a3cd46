// Scaled dot-product attention ("Attention Is All You Need" §3.2.1) with grouped keys and values
// (arXiv:2305.13245), sliding window (Mistral: the row itself and the window - 1 keys before it),
// soft cap (Gemma 2 report §2) and linear biases (arXiv:2108.12409).

#include "oracle/attention.h"

#include <cmath>

namespace mainstem::oracle {
namespace {

struct Sizes {
  int64_t heads, rows, keys, width;
  size_t at(int64_t h, int64_t t, int64_t s) const {
    return static_cast<size_t>((h * rows + t) * keys + s);
  }
};

Sizes sizes_of(const AttentionSpec& spec, const AttentionInput& input) {
  return {spec.heads, static_cast<int64_t>(input.q.size()), static_cast<int64_t>(input.k.size()),
          spec.head_width};
}

Values empty_square(const Sizes& n) {
  Values result;
  result.shape = {1, n.heads, n.rows, n.keys};
  result.data.assign(static_cast<size_t>(n.heads * n.rows * n.keys), 0.0);
  result.magnitude = result.data;
  return result;
}

bool visible(const AttentionSpec& spec, const AttentionInput& input, int64_t row, int64_t key) {
  if (row < input.query_padding || key < input.key_padding) return false;
  switch (spec.mask) {
    case MaskKind::kFull:
      return true;
    case MaskKind::kCausal:
      return key <= row;
    case MaskKind::kWindow:
      return key <= row && row - key < spec.window;
  }
  return false;
}

double channel(const Matrix& x, int64_t row, int64_t head, int64_t width, int64_t e) {
  return x.at(static_cast<size_t>(row)).at(static_cast<size_t>(head * width + e));
}

}  // namespace

Values attention_scores(const AttentionSpec& spec, const AttentionInput& input) {
  const Sizes n = sizes_of(spec, input);
  Values scores = empty_square(n);
  scores.terms = n.width;
  for (int64_t h = 0; h < n.heads; ++h) {
    const int64_t kv_head = h / (spec.heads / spec.kv_heads);
    for (int64_t t = 0; t < n.rows; ++t) {
      for (int64_t s = 0; s < n.keys; ++s) {
        double sum = 0;
        double magnitude = 0;
        for (int64_t e = 0; e < n.width; ++e) {
          const double term =
              channel(input.q, t, h, n.width, e) * channel(input.k, s, kv_head, n.width, e);
          sum += term;
          magnitude += std::abs(term);
        }
        sum *= spec.score_scale;
        magnitude *= std::abs(spec.score_scale);
        if (spec.soft_cap > 0) sum = spec.soft_cap * std::tanh(sum / spec.soft_cap);
        if (!spec.alibi_slopes.empty()) {
          const double bias = spec.alibi_slopes.at(static_cast<size_t>(h)) * static_cast<double>(s);
          sum += bias;
          magnitude += std::abs(bias);
        }
        scores.data[n.at(h, t, s)] = sum;
        scores.magnitude[n.at(h, t, s)] = magnitude;
      }
    }
  }
  return scores;
}

Values attention_pattern(const AttentionSpec& spec, const AttentionInput& input,
                         const Values& scores) {
  const Sizes n = sizes_of(spec, input);
  Values pattern = empty_square(n);
  for (int64_t h = 0; h < n.heads; ++h) {
    for (int64_t t = 0; t < n.rows; ++t) {
      double largest = -INFINITY;
      double reach = 1;  // a rounded score moves the result by its own size
      for (int64_t s = 0; s < n.keys; ++s) {
        if (!visible(spec, input, t, s)) continue;
        largest = std::fmax(largest, scores.data[n.at(h, t, s)]);
        reach = std::fmax(reach, 1 + 2 * scores.magnitude[n.at(h, t, s)]);
        ++pattern.terms;
      }
      double total = 0;
      for (int64_t s = 0; s < n.keys; ++s) {
        if (visible(spec, input, t, s)) total += std::exp(scores.data[n.at(h, t, s)] - largest);
      }
      for (int64_t s = 0; s < n.keys; ++s) {
        if (!visible(spec, input, t, s)) continue;
        const double p = std::exp(scores.data[n.at(h, t, s)] - largest) / total;
        pattern.data[n.at(h, t, s)] = p;
        pattern.magnitude[n.at(h, t, s)] = p * reach;
      }
    }
  }
  pattern.terms = scores.terms + n.keys;
  return pattern;
}

Values attention_mix(const AttentionSpec& spec, const AttentionInput& input,
                     const Values& pattern) {
  const Sizes n = sizes_of(spec, input);
  Values mix;
  mix.shape = {1, n.rows, n.heads, n.width};
  mix.terms = pattern.terms;
  for (int64_t t = 0; t < n.rows; ++t) {
    for (int64_t h = 0; h < n.heads; ++h) {
      const int64_t kv_head = h / (spec.heads / spec.kv_heads);
      for (int64_t e = 0; e < n.width; ++e) {
        double sum = 0;
        double magnitude = 0;
        for (int64_t s = 0; s < n.keys; ++s) {
          const double v = channel(input.v, s, kv_head, n.width, e);
          sum += pattern.data[n.at(h, t, s)] * v;
          magnitude += pattern.magnitude[n.at(h, t, s)] * std::abs(v);
        }
        mix.data.push_back(sum);
        mix.magnitude.push_back(magnitude);
      }
    }
  }
  return mix;
}

}  // namespace mainstem::oracle
