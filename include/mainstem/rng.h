#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mainstem {

/// PyTorch's CPU generator (mt19937) and its distributions, bit for bit as torch 2.13 draws them
/// on a processor with AVX2. Source of each recipe: the comments in src/base/rng.cc.
class Generator {
 public:
  explicit Generator(uint64_t seed = 5489);
  /// torch.manual_seed: only the low 32 bits of the seed are used.
  void manual_seed(uint64_t seed);

  uint32_t next_word();
  /// torch.rand: uniform in [0, 1).
  void rand(std::span<float> out);
  void rand(std::span<double> out);
  /// Tensor.uniform_(low, high).
  void uniform(std::span<float> out, double low, double high);
  /// torch.randn: below 16 elements the scalar recipe (which keeps a spare normal), from 16 up
  /// the vector recipe.
  void randn(std::span<float> out);
  void randn(std::span<double> out);
  /// torch.randint(low, high), high exclusive; ranges below 2^28 as torch (and above by its
  /// two-word rule).
  void randint(std::span<int64_t> out, int64_t low, int64_t high);
  /// torch.randperm(n).
  std::vector<int64_t> randperm(int64_t n);

 private:
  double next_f64();
  double next_normal();
  void refill();

  uint32_t state_[624];
  int position_ = 624;
  std::optional<double> spare_normal_;
};

/// nn.Linear(in, out): weight [out, in], then bias [out], each uniform(±1/sqrt(in)).
struct LinearInit {
  std::vector<float> weight, bias;
};
LinearInit init_linear(Generator& generator, int64_t in, int64_t out, bool bias = true);

/// nn.MultiheadAttention(width): draws in torch's order; see rng.cc.
struct MultiheadAttentionInit {
  std::vector<float> in_proj_weight, in_proj_bias;    // [3D, D], [3D]
  std::vector<float> out_proj_weight, out_proj_bias;  // [D, D], [D]
};
MultiheadAttentionInit init_multihead_attention(Generator& generator, int64_t width);

}  // namespace mainstem
