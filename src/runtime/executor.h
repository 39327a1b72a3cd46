#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "mainstem/program.h"
#include "mainstem/trace.h"
#include "runtime/bound_weights.h"
#include "runtime/pass.h"
#include "runtime/plan.h"

namespace mainstem {

struct ExecutorOptions {
  /// The fast table (float only); null: the plain kernels.
  const kernels::CpuKernels* kernels = nullptr;
  /// Inputs of products with quantised weights are rounded to 8 bits (float only).
  kernels::InputPrecision precision = kernels::InputPrecision::kF32;
  /// Every product by the plain loops (a pass in double has faster ones).
  bool plain_products = false;
  /// What a pass in double imitates; null: nothing.
  const reference::ArithmeticRules* rules = nullptr;
  /// Ends a pass by Cancelled once it is true; it stays true until the pass has ended.
  const std::atomic<bool>* cancel = nullptr;
};

/// Runs a plan. One pool entry per pass; workers meet at a barrier after each node. The program
/// and the weights must outlive it. Not safe to run from two threads at a time.
template <typename T>
class Executor {
 public:
  Executor(const Program& program, const BoundWeights& weights, Plan plan, ExecutorOptions options);
  ~Executor();

  /// Runs one pass, extends the sequences' states and returns the rows of the program's output
  /// (valid until the next run). Values the plan was made to deliver go to `sink`, then to
  /// `patch`, which may change them.
  std::span<const T> run(std::span<const PassSequence<T>> sequences, LogitRows logits,
                         const TraceSink& sink, const ValuePatch& patch, int threads);

  /// A new, empty state for one sequence.
  SequenceState<T> new_state() const;

 private:
  class Pass;
  const Program& program_;
  const BoundWeights& weights_;
  const Plan plan_;
  const ExecutorOptions options_;
  std::vector<int> store_of_step_;  // attention steps in order; -1 for others
  AlignedBuffer arenas_[3], packed_, scratch_;
  std::vector<AlignedBuffer> squares_;  // of scores and patterns, not in use
};

extern template class Executor<float>;
extern template class Executor<double>;

}  // namespace mainstem
