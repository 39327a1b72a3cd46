#pragma once

// What the plain kernels compute in. Each kernel is written once over one of two arithmetics:
// Exact, which is the definition, and Rounded, which imitates implementations of lower precision.

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/reference/sums.h"
#include "mainstem/activation.h"
#include "mainstem/arithmetic.h"
#include "mainstem/tensor.h"

namespace mainstem::reference {

/// What steps write and weights are kept in.
enum class Storage : uint8_t { kF32, kBF16, kF16 };
/// To the nearest value of that type, which may be an infinity.
inline float round_to(Storage storage, float value) {
  switch (storage) {
    case Storage::kF32:
      return value;
    case Storage::kBF16:
      return bf16_to_f32(f32_to_bf16(value));
    case Storage::kF16:
      return f16_to_f32(f32_to_f16(value));
  }
  return value;
}

/// Where a step made of several operations rounds.
enum class StepForm : uint8_t {
  kWhole,  ///< in float32 up to the end, as a kernel of its own
  kEach,   ///< every operation writes its result, as separate operations on tensors
};

enum class NormForm : uint8_t {
  kWhole,      ///< (x - mean) / deviation * weight + bias, stored once
  kCastFirst,  ///< the normed row is stored before it meets the weight (Llama in transformers)
  kFolded,     ///< x * a + b with a = 1 / deviation, b = -mean * a (PyTorch's layer norm)
};

enum class ScoreForm : uint8_t {
  kWhole,       ///< never stored: scale, cap and bias in float32 (flash attention)
  kEach,        ///< the product, the scaled product and so on are each stored (eager)
  kQueryFirst,  ///< the query is scaled and stored before the product (OPT)
};

enum class PatternForm : uint8_t {
  kDivided,       ///< exp / sum, stored
  kReciprocal,    ///< exp * (1 / sum), stored
  kUnnormalised,  ///< exp is stored, the mixture is divided by the sum (flash attention)
};

enum class AddForm : uint8_t { kEach, kReversed, kOnce };

enum class AngleForm : uint8_t {
  kPower,     ///< base to a power, its inverse and the angle in float32 (PyTorch)
  kIterated,  ///< each frequency is the one before times a factor (ggml)
  kStored,    ///< frequencies are of the storage type (a whole PyTorch module cast to 16 bits)
};

/// What one variant does.
struct ArithmeticRules {
  std::string_view description;
  Storage storage = Storage::kF32;
  SumOrder order = SumOrder::kForward;
  bool store_halves = false;  ///< with SumOrder::kHalves: products store each half
  bool store_before_bias = false;
  NormForm norm = NormForm::kWhole;
  bool one_pass_variance = false;  ///< mean(x^2) - mean(x)^2
  StepForm rotary = StepForm::kWhole;
  bool store_angles = false;  ///< cosine and sine are of the storage type
  AngleForm angles = AngleForm::kPower;
  ScoreForm scores = ScoreForm::kWhole;
  PatternForm pattern = PatternForm::kDivided;
  /// exp, tanh, sine and cosine miss the nearest float32 by one unit, as those of vector libraries
  /// may, and erf is the approximation that some use.
  bool rough_curves = false;
  StepForm activation = StepForm::kWhole;
  StepForm soft_cap = StepForm::kWhole;
  bool store_factor = false;  ///< a scale's factor is of the storage type
  AddForm add = AddForm::kEach;
  /// Inputs of products: 8 bits where the weights are quantised, the weights' own type where that
  /// has 16 bits.
  bool round_inputs = false;
  bool f16_block_scale = false;  ///< of blocks of 32 8-bit inputs (of 256: always float32)
  bool f16_cache = false;        ///< keys and values as attention reads them
  bool f16_attention = false;    ///< queries and patterns on their way into products
  bool f16_mix = false;          ///< the mixture is summed up in float16
  bool f16_curves = false;       ///< tanh and quick GELU are tables of float16
};

/// curve(x) in float32, where y is the value that the C library gives.
float curve_value(const ArithmeticRules& rules, float x, float y);

/// A usage Error where there is no such variant; null for kF64.
const ArithmeticRules* rules_of(const Arithmetic& arithmetic);

/// Sixteen numbers that are added side by side.
template <typename Number>
struct Sixteen {
  Number v[16];
  Sixteen& operator+=(const Sixteen& other) {
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) v[j] += other.v[j];
    return *this;
  }
};
/// The same in float16.
struct HalfSixteen : Sixteen<float> {
  HalfSixteen& operator+=(const HalfSixteen& other) {
    for (int j = 0; j < 16; ++j) v[j] = round_to(Storage::kF16, v[j] + other.v[j]);
    return *this;
  }
};

/// The definition: everything in double, in the order as written, rounded once to the type of the
/// result. (Rotary products stay in that type.)
struct Exact {
  using Number = double;
  template <typename Sum = double, typename Term>
  Sum sum(int64_t count, const Term& term) const {
    return ordered_sum<Sum>(SumOrder::kForward, count, term);
  }
  template <typename Sum, typename Term>
  Sum mix(int64_t count, const Term& term) const {
    return sum<Sum>(count, term);
  }
  double store(double value) const { return value; }
  double weight(double value) const { return value; }
  double factor(double value) const { return value; }

  bool one_pass_variance() const { return false; }
  double normed(double x, double mean, double divisor) const { return (x - mean) / divisor; }
  double before_weight(double value) const { return value; }

  template <typename T>
  T product_difference(T a, T c, T b, T s) const {
    return a * c - b * s;
  }
  template <typename T>
  T product_sum(T a, T c, T b, T s) const {
    return a * c + b * s;
  }

  double activate(Activation kind, double x) const;
  double soft_cap(double x, double cap) const { return cap * std::tanh(x / cap); }
  double exp(double x) const { return std::exp(x); }

  double query(double q, double) const { return q; }
  struct ScoreParams {
    double scale, soft_cap, slope;
  };
  double score(double product, const ScoreParams& params, double position) const {
    product *= params.scale;
    if (params.soft_cap != 0) product = soft_cap(product, params.soft_cap);
    if (params.slope != 0) product += params.slope * position;
    return product;
  }
  /// The weight of a key in the mixture, and what the mixture is divided by.
  double pattern(double exponential, double total) const { return exponential / total; }
  double mix_weight(double exponential, double total) const { return exponential / total; }
  double mix_divisor(double) const { return 1; }
  double given_weight(double pattern) const { return pattern; }
};

/// An implementation that keeps its values in float32, bfloat16 or float16, by rules. Values are
/// those of its storage type, whatever holds them.
class Rounded {
 public:
  explicit Rounded(const ArithmeticRules& rules) : rules_(rules) {}
  using Number = float;

  template <typename Sum = float, typename Term>
  Sum sum(int64_t count, const Term& term) const {
    return ordered_sum<Sum>(rules_.order, count, term);
  }
  template <typename Sum, typename Term>
  Sum mix(int64_t count, const Term& term) const {
    if (!rules_.f16_mix) return sum<Sum>(count, term);
    return ordered_sum<HalfSixteen>(rules_.order, count,
                                    [&](int64_t i) { return HalfSixteen{term(i)}; });
  }
  float store(float value) const { return round_to(rules_.storage, value); }
  float weight(double value) const { return store(static_cast<float>(value)); }
  float factor(double value) const {
    const auto narrow = static_cast<float>(value);
    return rules_.store_factor ? store(narrow) : narrow;
  }

  bool one_pass_variance() const { return rules_.one_pass_variance; }
  float normed(float x, float mean, float divisor) const {
    switch (rules_.norm) {
      case NormForm::kWhole:
        return (x - mean) / divisor;
      case NormForm::kCastFirst:
        return (x - mean) * (1 / divisor);
      case NormForm::kFolded:
        return x * (1 / divisor) + -mean * (1 / divisor);
    }
    return x;
  }
  float before_weight(float value) const {
    return rules_.norm == NormForm::kCastFirst ? store(value) : value;
  }

  double product_difference(double a, double c, double b, double s) const {
    return turn(narrow(a) * narrow(c), -(narrow(b) * narrow(s)));
  }
  double product_sum(double a, double c, double b, double s) const {
    return turn(narrow(a) * narrow(c), narrow(b) * narrow(s));
  }

  template <typename Term>
  float sum_of_terms(int64_t count, const Term& term) const {
    if (count < 2) return store(term(0));
    const bool reversed = rules_.add == AddForm::kReversed;
    const auto at = [&](int64_t i) { return term(reversed ? count - 1 - i : i); };
    float sum = at(0);
    for (int64_t i = 1; i < count; ++i)
      sum = maybe_store(rules_.add != AddForm::kOnce, sum + at(i));
    return store(sum);
  }
  float activate(Activation kind, float x) const;
  float exp(float x) const { return curve_value(rules_, x, std::exp(x)); }
  float soft_cap(float x, double cap) const {
    return capped(rules_.soft_cap == StepForm::kEach, x, narrow(cap));
  }

  float query(float q, double scale) const {
    if (rules_.scores == ScoreForm::kQueryFirst) q = store(q * narrow(scale));
    return rules_.f16_attention ? round_to(Storage::kF16, q) : q;
  }
  float score(float product, const Exact::ScoreParams& params, double position) const;
  float pattern(float exponential, float total) const;
  float mix_weight(float exponential, float total) const {
    const float weight = rules_.pattern == PatternForm::kUnnormalised ? store(exponential)
                                                                      : pattern(exponential, total);
    return given_weight(weight);
  }
  float mix_divisor(float total) const {
    return rules_.pattern == PatternForm::kUnnormalised ? total : 1;
  }
  /// A pattern that somebody gave, as it enters the mixture.
  float given_weight(float pattern) const {
    return rules_.f16_attention ? round_to(Storage::kF16, pattern) : pattern;
  }

 private:
  static float narrow(double value) { return static_cast<float>(value); }
  float tanh(float x) const { return curve_value(rules_, x, std::tanh(x)); }
  float erf(float x) const;
  float maybe_store(bool stores, float value) const { return stores ? store(value) : value; }
  double turn(float first, float second) const {
    const bool each = rules_.rotary == StepForm::kEach;
    return store(maybe_store(each, first) + maybe_store(each, second));
  }
  float capped(bool each, float x, float cap) const {
    return maybe_store(each, maybe_store(each, tanh(maybe_store(each, x / cap))) * cap);
  }

  const ArithmeticRules& rules_;
};

}  // namespace mainstem::reference
