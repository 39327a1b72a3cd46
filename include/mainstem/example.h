#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainstem/program.h"
#include "mainstem/session.h"
#include "mainstem/tensor.h"
#include "mainstem/weights.h"

// A worked example small enough to follow by hand: one block on X [1,4,8] with one head, no output
// projection, and weights drawn as torch.manual_seed(seed); torch.randn(...) draws them.

namespace mainstem {

enum class ExampleMlp : uint8_t {
  kSwiGlu,    ///< silu(gate) * value, F = 16; gate is the first half of the combined [8,32] matrix
  kGeluTanh,  ///< F = 32
  kGeluErf,   ///< F = 32
};

struct ExampleOptions {
  uint64_t seed = 42;
  NormKind norm = NormKind::kRms;  ///< rms: eps 1e-6; layer: eps 1e-5; gain 1, bias 0
  ExampleMlp mlp = ExampleMlp::kSwiGlu;
  NormPlacement placement = NormPlacement::kPre;  ///< kPre or kPost
  bool causal = false;
};

/// A matrix as it was drawn: [in, out], used as x @ W.
struct ExampleWeight {
  std::string weights;  ///< the program's weights it holds: "blocks.0.q.weight"
  std::string name;     ///< "W_Q"
  Tensor value;
};

/// The block, its input and its weights. The program and the sources may be exchanged for edited
/// ones before run_example().
struct Example {
  BlockSpec spec;
  Program program;
  WeightSources sources;
  Tensor input;                        ///< X [1,4,8]
  std::vector<ExampleWeight> weights;  ///< those that the block uses, in the order of drawing
};

/// Draws X, W_Q, W_K, W_V, W_swiglu [8,32], W_mlp_out [16,8], W1_gelu [8,32], W2_gelu [32,8] from
/// one generator, whichever of them the variant uses.
///
///     auto example = mainstem::make_example({.causal = true});
///     for (const auto& step : mainstem::run_example(example, mainstem::Compute::kF64)) {
///       std::cout << step.name << ' ' << mainstem::to_string(step.value.shape()) << '\n';
///     }
Example make_example(const ExampleOptions& options = {});

/// One row of the example: a drawn tensor or a step of the block.
struct ExampleStep {
  std::string site;     ///< "blocks.0.attn_norm"; of a weight its names in the program
  std::string name;     ///< "X_norm"; a step without such a name has its site's
  std::string formula;  ///< in these names: "X_norm @ W_Q"
  bool is_weight = false;
  Tensor value;  ///< [1,4,8], scores [1,4,4]; f32, or f64 with Compute::kF64
};

/// The input, the weights, then every step in firing order. A gated MLP has one row more, x_proj:
/// the gate and the value beside each other, as one matrix gives them.
std::vector<ExampleStep> run_example(const Example& example, Compute compute = Compute::kF32,
                                     int threads = 1);

}  // namespace mainstem
