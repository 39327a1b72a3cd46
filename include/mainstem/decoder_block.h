#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/program.h"
#include "mainstem/rng.h"
#include "mainstem/safetensors.h"
#include "mainstem/spec.h"
#include "mainstem/tensor.h"
#include "mainstem/weights.h"

// The decoder block that people write first in PyTorch, from nn.MultiheadAttention and two norms:
//
//     self.norm1 = RMSNorm(D)
//     self.attn = nn.MultiheadAttention(D, H, batch_first=True)
//     self.norm2 = RMSNorm(D)
//     self.mlp = SwiGLU(D)                    # w: Linear(D, 4D), w_out: Linear(2D, D), no biases
//     x = x + self.attn(self.norm1(x)); x = x + self.mlp(self.norm2(x))
//
// read from its own state dict, or initialised with the numbers that torch would draw.

namespace mainstem {

enum class DecoderBlockMlp : uint8_t {
  kSwiGlu,    ///< silu(gate) * value, F = 2D; gate is the first half of w [4D, D]; no biases
  kGelu,      ///< nn.Sequential(nn.Linear(D, 4D), nn.GELU(), nn.Linear(4D, D)), the erf form
  kGeluTanh,  ///< the same with nn.GELU(approximate="tanh")
};

struct DecoderBlockOptions {
  int64_t width = 0;               ///< D
  int64_t heads = 4;               ///< H, divides D
  NormKind norm = NormKind::kRms;  ///< rms: eps 1e-6; layer: nn.LayerNorm(D), eps 1e-5
  DecoderBlockMlp mlp = DecoderBlockMlp::kSwiGlu;
};

/// Pre-norm, causal, biases on q, k, v and the output projection. A usage Error where the heads do
/// not divide the width.
BlockSpec decoder_block_spec(const DecoderBlockOptions& options);

/// Names and shapes of the state dict, in torch's order: "norm1.weight" [D], "attn.in_proj_weight"
/// [3D, D], "attn.in_proj_bias", "attn.out_proj.weight", "attn.out_proj.bias", "norm2.weight",
/// then "mlp.w.weight" [4D, D] and "mlp.w_out.weight" [D, 2D], or "mlp.0.weight", "mlp.0.bias",
/// "mlp.2.weight", "mlp.2.bias"; a LayerNorm has "norm1.bias" and "norm2.bias" too.
std::vector<WeightInfo> decoder_block_state(const DecoderBlockOptions& options);

struct StateEntry {
  std::string name;
  Tensor value;
};
using StateDict = std::vector<StateEntry>;

/// The parameters of a block that torch constructs now: norms are ones (and zeros), everything
/// else is drawn in the order in which the modules are made.
///
///     mainstem::Generator generator(42);  // torch.manual_seed(42)
///     const mainstem::DecoderBlockOptions options{.width = 256, .heads = 8};
///     const auto state = mainstem::init_decoder_block(options, generator);
///     const mainstem::Block block(mainstem::decoder_block_spec(options),
///                                 mainstem::decoder_block_weights(options, state));
StateDict init_decoder_block(const DecoderBlockOptions& options, Generator& generator);

/// A state dict as weights of the program; nothing is copied. Errors (bad input): one that lists
/// every name that is missing and every name that the block does not have; a tensor whose shape or
/// type does not fit, by its name. `keep_alive` holds the memory of the views, or is empty where
/// the caller does.
WeightSources decoder_block_weights(const DecoderBlockOptions& options,
                                    std::span<const NamedTensor> state,
                                    const std::shared_ptr<const void>& keep_alive = {});
/// Of tensors that own their memory, which stays alive with the weights.
WeightSources decoder_block_weights(const DecoderBlockOptions& options, const StateDict& state);
/// Of the tensors of a file whose names begin with `prefix` ("layers.0."); others are not looked
/// at. The mapped file stays alive with the weights.
WeightSources decoder_block_weights(const DecoderBlockOptions& options, const SafetensorsFile& file,
                                    std::string_view prefix = {});

}  // namespace mainstem
