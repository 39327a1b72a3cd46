#include "mainstem/rng.h"

#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "base/box_muller.h"
#include "base/checked.h"
#include "mainstem/error.h"

// The generator is mt19937 (Matsumoto and Nishimura, 1998). How PyTorch turns its words into
// values was established by comparing with torch 2.13.0 (CPU); its own code is in
// aten/src/ATen/core/{MT19937RNGEngine,TransformationHelper,DistributionsHelper}.h and
// aten/src/ATen/native/cpu/DistributionTemplates.h.

namespace mainstem {
namespace {

constexpr int kStateWords = 624;
constexpr int kShift = 397;

constexpr uint32_t twist(uint32_t upper, uint32_t lower) {
  const uint32_t mixed = (upper & 0x80000000u) | (lower & 0x7fffffffu);
  return (mixed >> 1) ^ ((lower & 1u) != 0 ? 0x9908b0dfu : 0u);
}

// One word, its 24 low bits.
float uniform_f32(Generator& generator) {
  return static_cast<float>(generator.next_word() & 0xffffffu) * 0x1p-24f;
}

// Two words; the first one is the upper half.
uint64_t next_two_words(Generator& generator) {
  const uint64_t upper = generator.next_word();
  return upper << 32 | generator.next_word();
}

/// The recipe for 16 values and more: uniforms first, then whole groups; where the length is no
/// multiple of 16, the last 16 values are drawn anew.
template <typename T>
void randn_wide(Generator& generator, std::span<T> out) {
  constexpr size_t kGroup = kBoxMullerGroup;
  generator.rand(out);
  box_muller(out.data(), out.size() / kGroup);
  if (out.size() % kGroup != 0) {
    const std::span<T> last = out.last(kGroup);
    generator.rand(last);
    box_muller(last.data(), 1);
  }
}

}  // namespace

Generator::Generator(uint64_t seed) { manual_seed(seed); }

void Generator::manual_seed(uint64_t seed) {
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < kStateWords; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
  position_ = kStateWords;
  spare_normal_.reset();
}

void Generator::refill() {
  int i = 0;
  for (; i < kStateWords - kShift; ++i) {
    state_[i] = state_[i + kShift] ^ twist(state_[i], state_[i + 1]);
  }
  for (; i < kStateWords - 1; ++i) {
    state_[i] = state_[i + kShift - kStateWords] ^ twist(state_[i], state_[i + 1]);
  }
  state_[i] = state_[i + kShift - kStateWords] ^ twist(state_[i], state_[0]);
  position_ = 0;
}

uint32_t Generator::next_word() {
  if (position_ == kStateWords) refill();
  uint32_t word = state_[position_++];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680u;
  word ^= (word << 15) & 0xefc60000u;
  return word ^ (word >> 18);
}

double Generator::next_f64() {
  constexpr uint64_t kMantissa = (uint64_t{1} << 53) - 1;
  return static_cast<double>(next_two_words(*this) & kMantissa) * 0x1p-53;
}

// The scalar recipe works in double for every type and keeps the second value of a pair, across
// other calls too, until the generator is seeded again.
double Generator::next_normal() {
  if (spare_normal_) {
    const double spare = *spare_normal_;
    spare_normal_.reset();
    return spare;
  }
  const double u1 = next_f64();
  const double u2 = next_f64();
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double angle = 2.0 * std::numbers::pi * u1;
  spare_normal_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

void Generator::rand(std::span<float> out) {
  for (float& value : out) value = uniform_f32(*this);
}

void Generator::rand(std::span<double> out) {
  for (double& value : out) value = next_f64();
}

void Generator::uniform(std::span<float> out, double low, double high) {
  const auto from = static_cast<float>(low);
  const float width = static_cast<float>(high) - from;
  for (float& value : out) value = std::fma(uniform_f32(*this), width, from);
}

void Generator::randn(std::span<float> out) {
  if (out.size() >= kBoxMullerGroup) return randn_wide(*this, out);
  for (float& value : out) value = static_cast<float>(next_normal());
}

void Generator::randn(std::span<double> out) {
  if (out.size() >= kBoxMullerGroup) return randn_wide(*this, out);
  for (double& value : out) value = next_normal();
}

void Generator::randint(std::span<int64_t> out, int64_t low, int64_t high) {
  if (high <= low) {
    throw usage_error("randint range", "high above low (" + std::to_string(low) + ")",
                      std::to_string(high));
  }
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const bool two_words = range >= uint64_t{1} << 28;
  for (int64_t& value : out) {
    const uint64_t word = two_words ? next_two_words(*this) : next_word();
    value = static_cast<int64_t>(word % range + static_cast<uint64_t>(low));
  }
}

std::vector<int64_t> Generator::randperm(int64_t n) {
  if (n < 0) throw usage_error("randperm length", "0 or more", std::to_string(n));
  std::vector<int64_t> order(static_cast<size_t>(n));
  constexpr int64_t kOneWordLimit = 0xffffffff / 20;
  if (n < kOneWordLimit) {
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    for (int64_t i = 0; i + 1 < n; ++i) {
      std::swap(order[i], order[i + static_cast<int64_t>(next_word()) % (n - i)]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t other = next_two_words(*this) % static_cast<uint64_t>(i + 1);
      order[i] = order[other];
      order[other] = i;
    }
  }
  return order;
}

namespace {

std::vector<float> uniform_values(Generator& generator, int64_t count, double bound) {
  std::vector<float> values(static_cast<size_t>(count));
  generator.uniform(values, -bound, bound);
  return values;
}

void expect_width(const char* what, int64_t width) {
  if (width < 1) throw usage_error(what, "1 or more", std::to_string(width));
}

}  // namespace

// torch.nn.Linear.reset_parameters: kaiming_uniform_(weight, a=sqrt(5)), whose bound comes to
// 1/sqrt(in) (after rounding to float, for every width up to two million); then the bias.
LinearInit init_linear(Generator& generator, int64_t in, int64_t out, bool bias) {
  expect_width("Linear input width", in);
  expect_width("Linear output width", out);
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  LinearInit init;
  init.weight = uniform_values(generator, checked_mul(in, out, "Linear weight count"), bound);
  if (bias) init.bias = uniform_values(generator, out, bound);
  return init;
}

// torch.nn.MultiheadAttention: out_proj is built first, as a Linear; then _reset_parameters draws
// in_proj_weight by xavier_uniform_ and sets both biases to zero.
MultiheadAttentionInit init_multihead_attention(Generator& generator, int64_t width) {
  LinearInit out_proj = init_linear(generator, width, width);
  const double deviation = std::sqrt(2.0 / static_cast<double>(4 * width));
  MultiheadAttentionInit init;
  init.in_proj_weight = uniform_values(generator, 3 * width * width, std::sqrt(3.0) * deviation);
  init.in_proj_bias.assign(static_cast<size_t>(3 * width), 0.0f);
  init.out_proj_weight = std::move(out_proj.weight);
  init.out_proj_bias.assign(static_cast<size_t>(width), 0.0f);
  return init;
}

}  // namespace mainstem
