// Attention on the plain or on the fast kernels, in one go or in stages that somebody can look at
// and change.

#include "runtime/executor_pass.h"

namespace mainstem {

template <typename T>
void Executor<T>::Pass::write_cache(const PlanNode& node, const Worker& worker) {
  if (!node.copy_keys && !node.copy_values) return;
  const Step& each = step(node.step);
  const auto& params = std::get<AttentionParams>(each.params);
  const AttentionJob& job = attention_.at(node.step);
  const reference::ArithmeticRules* rules = executor_.options_.rules;
  const bool f16 = rules != nullptr && rules->f16_cache;
  const auto kept = [&](T x) {
    return f16 ? static_cast<T>(
                     reference::round_to(reference::Storage::kF16, static_cast<float>(x)))
               : x;
  };
  const int64_t width = params.head_width;
  const auto [begin, end] = worker.slice(static_cast<int64_t>(job.key_rows.size()));
  for (int64_t m = begin; m < end; ++m) {
    for (int64_t g = 0; g < params.kv_heads; ++g) {
      for (int64_t e = 0; e < width; ++e) {
        const int64_t from = (m * params.kv_heads + g) * width + e;
        const auto row = static_cast<size_t>(m);
        if (node.copy_keys) {
          job.key_rows[row][(g * width + e) * 16] = kept(value(each.inputs[1])[from]);
        }
        if (node.copy_values) {
          job.value_rows[row][g * width * 16 + e] = kept(value(each.inputs[2])[from]);
        }
      }
    }
  }
  worker.sync();
}

template <typename T>
void Executor<T>::Pass::run_attention_parts(const PlanNode& node, reference::AttentionParts parts,
                                            const Worker& worker) {
  const Step& each = step(node.step);
  const auto& params = std::get<AttentionParams>(each.params);
  const AttentionJob& job = attention_.at(node.step);
  if constexpr (std::is_same_v<T, float>) {
    if (job.use_fast) {
      return executor_.options_.kernels->attention(fast_attention_args(node.step), worker);
    }
  }
  with_arithmetic([&](const auto& arithmetic) {
    reference::attention<T>({.heads = params.heads,
                             .kv_heads = params.kv_heads,
                             .head_width = params.head_width,
                             .scale = params.scale,
                             .soft_cap = params.soft_cap,
                             .alibi_slopes = params.alibi_slopes,
                             .kv_map = params.kv_map,
                             .hidden_score = params.hidden_score,
                             .parts = parts,
                             .cancel = executor_.options_.cancel},
                            std::span<const reference::AttentionSequence<T>>(job.plain),
                            job.begin.data(), job.end.data(), value(each.inputs[0]),
                            value(each.output), reinterpret_cast<double*>(worker_scratch(worker)),
                            worker, arithmetic);
  });
}

template <typename T>
void Executor<T>::Pass::run_attention(const PlanNode& node, const Worker& worker) {
  write_cache(node, worker);
  run_attention_parts(node, {}, worker);
}

/// Whether somebody may change a value between the inputs of a step and its output.
template <typename T>
bool Executor<T>::Pass::is_staged(const PlanNode& node) const {
  if (!watch_.patch || node.is_gemm || step(node.step).op != Op::kAttention) return false;
  return attention_.at(node.step).has_wishes;
}

template <typename T>
void Executor<T>::Pass::run_in_stages(const PlanNode& node, const Worker& worker) {
  const AttentionJob& job = attention_.at(node.step);
  const auto show = [&](Stage stage) {
    worker.sync();
    check_cancel();
    if (worker.index == 0) deliver(node, stage);
    worker.sync();
  };
  write_cache(node, worker);
  show(Stage::kCache);
  reference::AttentionParts left;
  if (job.wants_scores) {
    run_attention_parts(node, {.scores = true, .pattern = false, .mix = false}, worker);
    left.scores = false;
    show(Stage::kScores);
  }
  if (job.wants_pattern) {
    run_attention_parts(node, {.scores = left.scores, .pattern = true, .mix = false}, worker);
    left.scores = left.pattern = false;
    show(Stage::kPattern);
  }
  run_attention_parts(node, left, worker);
  show(Stage::kRest);
}

template class Executor<float>::Pass;
template class Executor<double>::Pass;

}  // namespace mainstem
