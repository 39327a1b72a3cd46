#include "runtime/executor.h"

#include "mainstem/error.h"
#include "runtime/executor_pass.h"

namespace mainstem {

template <typename T>
Executor<T>::Executor(const Program& program, const BoundWeights& weights, Plan plan,
                      ExecutorOptions options)
    : program_(program), weights_(weights), plan_(std::move(plan)), options_(options) {
  int next = 0;
  for (const Step& step : program.steps) {
    store_of_step_.push_back(step.op == Op::kAttention ? next++ : -1);
  }
}

template <typename T>
Executor<T>::~Executor() = default;

template <typename T>
SequenceState<T> Executor<T>::new_state() const {
  SequenceState<T> state;
  for (const Step& step : program_.steps) {
    if (step.op != Op::kAttention) continue;
    const auto& params = std::get<AttentionParams>(step.params);
    state.stores.emplace_back(reference::KeyLayout{params.kv_heads, params.head_width});
  }
  return state;
}

template <typename T>
std::span<const T> Executor<T>::run(std::span<const PassSequence<T>> sequences, LogitRows logits,
                                    const TraceSink& sink, const ValuePatch& patch, int threads) {
  const PassRows<T> rows(program_, sequences, logits);
  Pass pass(*this, sequences, rows, {sink, patch}, threads);
  pass.run();
  for (size_t i = 0; i < sequences.size(); ++i) {
    SequenceState<T>& state = *sequences[i].state;
    if (state.length == 0) state.padding = sequences[i].padding;
    state.length += rows.count(Rows::kMain, i);
    if (rows.count(Rows::kEncoder, i) > 0) {
      state.encoder_length = rows.count(Rows::kEncoder, i);
      state.encoder_padding = sequences[i].encoder_padding;
    }
  }
  const Value& output = program_.value(program_.output);
  return {pass.value(program_.output), static_cast<size_t>(rows.count(output.rows) * output.width)};
}

template class Executor<float>;
template class Executor<double>;

}  // namespace mainstem
