#pragma once

#include <memory>
#include <span>
#include <vector>

#include "mainstem/session.h"

namespace mainstem {

/// One transformer block over weights that the caller owns. The tensors are viewed, not copied
/// (float32 products pack them once on first use), and must outlive the block.
///
///     mainstem::BlockSpec spec{.width = 8, …};
///     mainstem::Block block(spec, {{"blocks.0.q.weight", {.tensor = wq}}, …});
///     std::vector<float> y = block.forward(x, 2);  // x [2,T,8] → y [2,T,8]
class Block {
 public:
  /// Weights by the program's names ("blocks.0.q.weight" [H*E, D], …; weight_names() lists them).
  /// Errors (bad input): a spec that cannot be, a weight that is missing or of the wrong shape.
  Block(const BlockSpec& spec, const WeightSources& weights);

  /// x [B,T,D] → y [B,T,D] in float32; every sequence starts at position 0.
  std::vector<float> forward(std::span<const float> x, int64_t batch,
                             Compute compute = Compute::kF32, int threads = 0) const;
  /// The same in double by the plain loops.
  std::vector<double> forward(std::span<const double> x, int64_t batch, int threads = 0) const;
  /// The wanted values of a pass over x [B,T,D], in order.
  std::vector<TracedValue> trace(std::span<const double> x, int64_t batch,
                                 std::vector<SiteId> sites, Compute compute = Compute::kF32,
                                 int threads = 0) const;

  const Program& program() const { return bound_->program(); }
  const std::shared_ptr<const BoundProgram>& bound() const { return bound_; }
  /// What a block of this spec needs.
  static std::vector<WeightInfo> weight_names(const BlockSpec& spec);

 private:
  std::shared_ptr<const BoundProgram> bound_;
};

}  // namespace mainstem
