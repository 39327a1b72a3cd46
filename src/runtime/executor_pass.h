#pragma once

#include "kernels/chain_product.h"
#include "runtime/executor.h"
#include "runtime/rotary_table.h"

namespace mainstem {

/// One pass of an executor: everything that depends on the rows at hand.
template <typename T>
class Executor<T>::Pass {
 public:
  /// Who looks at the values and who changes them; both may be empty.
  struct Watchers {
    const TraceSink& sink;
    const ValuePatch& patch;
  };
  Pass(Executor& executor, std::span<const PassSequence<T>> sequences, const PassRows<T>& rows,
       Watchers watchers, int threads);

  void run();
  T* value(ValueId id) const;

 private:
  // A product with its pointers filled in.
  struct Launch {
    kernels::NormPrologue norm;
    kernels::GemmInput input;
    std::vector<kernels::GemmPart> parts;
    std::vector<std::vector<kernels::EpilogueOp>> epilogues;
    bool private_input = false;  // few rows: every worker packs for itself
  };
  struct RotaryAngles {
    RotarySpec spec;
    Rows rows;
    RowPosition position = RowPosition::kRight;
    int64_t offset = 0;
    Restarts restarts = {};
    std::vector<T> cosine, sine;
    kernels::RotaryTable table;

    bool serves(const RotaryParams& params, Rows of_rows) const {
      return rows == of_rows && spec == params.rotary && position == params.position &&
             offset == params.offset && restarts == params.restarts;
    }
  };
  // Attention of one step: its stores, its key ranges, its cache pointers.
  struct AttentionJob {
    std::vector<int64_t> begin, end;
    std::vector<kernels::KeyRange> ranges;
    std::vector<T*> key_rows, value_rows;
    std::vector<kernels::AttentionSequence> fast;
    std::vector<reference::AttentionSequence<T>> plain;
    // Scores and patterns that somebody looks at, from the step until their last delivery.
    bool wants_scores = false, wants_pattern = false;
    AlignedBuffer square;
    size_t square_size = 0;
    T *scores = nullptr, *pattern = nullptr;
    int undelivered = 0;
    std::vector<float> slopes;
    bool use_fast = false;
    bool has_wishes = false;  // somebody looks at a value between its inputs and its output
  };

  // executor_prepare.cc
  void prepare();
  void prepare_rotary();
  void add_angles(RotaryAngles& angles, const RotaryFrequencies& f, size_t i) const;
  void round_angles(const reference::ArithmeticRules& rules, const RotaryFrequencies& exact,
                    std::span<const int64_t> positions, RotaryAngles& angles) const;
  void prepare_attention(StepId id);
  void prepare_product(const PlanNode& node, Launch& launch);
  void add_epilogue(const GemmPartPlan& plan, kernels::GemmPart& part,
                    std::vector<kernels::EpilogueOp>& ops);
  void size_scratch();
  const RotaryAngles& angles(const RotaryParams& params, Rows rows) const;
  kernels::AttentionArgs fast_attention_args(StepId id) const;

  // executor_steps.cc
  void run_node(size_t number, const Worker& worker);
  void run_product(const Launch& launch, const Worker& worker);
  void run_step(const PlanNode& node, const Worker& worker);
  void run_embedding(const Step& step, const Worker& worker);
  void run_norm(const Step& step, const Worker& worker);
  void run_elementwise(const Step& step, const Worker& worker);
  bool run_fast_elementwise(const Step& step, int64_t count, const Worker& worker);
  void run_rotary(const Step& step, const Worker& worker);
  void run_custom(const Step& step, const Worker& worker);
  void run_custom_sequences(const Step& step, const Worker& worker);
  void check_cancel() const;
  /// Calls body with the arithmetic of the pass.
  template <typename Body>
  void with_arithmetic(const Body& body) const;
  /// Rounds what a step wrote to what the pass imitates.
  void store(T* values, int64_t count) const;

  // executor_linear.cc
  void run_linear(const Step& step, const Worker& worker);
  kernels::ChainOrder product_order(const Step& linear) const;
  size_t product_input_bytes(const Step& linear) const;
  size_t product_scratch_bytes(const Step& linear) const;
  void run_double_product(const Step& linear, const Worker& worker);
  void run_rounded_product(const Step& linear, const Worker& worker);

  // executor_attention.cc
  void run_attention(const PlanNode& node, const Worker& worker);
  void run_in_stages(const PlanNode& node, const Worker& worker);
  bool is_staged(const PlanNode& node) const;
  void write_cache(const PlanNode& node, const Worker& worker);
  void run_attention_parts(const PlanNode& node, reference::AttentionParts parts,
                           const Worker& worker);

  // executor_trace.cc
  bool needs_square(const PlanNode& node) const;
  void open_square(const PlanNode& node);
  /// Values that a node's step makes one after the other, when it does so in stages.
  enum class Stage : uint8_t { kCache, kScores, kPattern, kRest };
  Stage stage_of(ValueId value) const;
  void deliver(const PlanNode& node);
  void deliver(const PlanNode& node, Stage stage);
  void deliver(const NamedValue& named);
  Shape shape_of(const Value& value) const;
  void deliver_cache(const SiteId& site, const Step& attention, bool keys);
  void tell(const TraceEvent& event, T* data) const;

  const Program& program() const { return executor_.program_; }
  const Step& step(StepId id) const { return executor_.program_.step(id); }
  int64_t row_count(ValueId id) const { return rows_.count(program().value(id).rows); }
  std::byte* worker_scratch(const Worker& worker) const {
    return executor_.scratch_.data() + static_cast<size_t>(worker.index) * scratch_stride_;
  }

  Executor& executor_;
  std::span<const PassSequence<T>> sequences_;
  const PassRows<T>& rows_;
  const Watchers watch_;
  const int threads_;
  bool wants_anything_ = false;
  std::vector<Launch> launches_;  // by node
  std::vector<RotaryAngles> angles_;
  std::map<StepId, AttentionJob> attention_;
  size_t scratch_stride_ = 0;
  size_t packed_stride_ = 0;
};

template <typename T>
template <typename Body>
void Executor<T>::Pass::with_arithmetic(const Body& body) const {
  if constexpr (std::is_same_v<T, double>) {
    if (executor_.options_.rules != nullptr) {
      return body(reference::Rounded(*executor_.options_.rules));
    }
  }
  body(reference::Exact());
}

}  // namespace mainstem
