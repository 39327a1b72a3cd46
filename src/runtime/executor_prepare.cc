// What a pass works out before its workers start: pointers, angles, key ranges, scratch.

#include <algorithm>
#include <cmath>

#include "mainstem/error.h"
#include "runtime/executor_pass.h"

namespace mainstem {
namespace {

// Up to this many rows every worker packs a product's input for itself and saves a barrier.
constexpr int64_t kPrivateInputRows = 4;

kernels::NormPrologue prologue(const NormParams& params, const float* weight, const float* bias) {
  return {.layer_norm = params.norm.kind == NormKind::kLayer,
          .eps = static_cast<float>(params.norm.eps),
          .weight_offset = static_cast<float>(params.norm.weight_offset),
          .weight = weight,
          .bias = bias};
}

}  // namespace

template <typename T>
Executor<T>::Pass::Pass(Executor& executor, std::span<const PassSequence<T>> sequences,
                        const PassRows<T>& rows, Watchers watchers, int threads)
    : executor_(executor),
      sequences_(sequences),
      rows_(rows),
      watch_(watchers),
      threads_(threads > 0 ? threads : default_thread_count()) {
  for (const PlanNode& node : executor.plan_.nodes) wants_anything_ |= !node.deliver.empty();
  if (wants_anything_ && !rows.uniform()) {
    throw usage_error("a traced pass", "sequences of equal length (pad them on the left)",
                      "different lengths");
  }
  prepare();
}

template <typename T>
void Executor<T>::Pass::run() {
  ThreadPool::shared().run(threads_, [&](const Worker& worker) {
    const auto& nodes = executor_.plan_.nodes;
    check_cancel();
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (needs_square(nodes[n])) {
        if (worker.index == 0) open_square(nodes[n]);
        worker.sync();
      }
      if (is_staged(nodes[n])) {
        run_in_stages(nodes[n], worker);
        continue;
      }
      run_node(n, worker);
      worker.sync();
      check_cancel();  // the values may be incomplete
      if (nodes[n].deliver.empty()) continue;
      if (worker.index == 0) deliver(nodes[n]);
      worker.sync();
    }
  });
}

template <typename T>
T* Executor<T>::Pass::value(ValueId id) const {
  const int64_t column = executor_.plan_.columns[static_cast<size_t>(id)];
  const Rows rows = program().value(id).rows;
  return executor_.arenas_[static_cast<size_t>(rows)].template as<T>() + column * rows_.count(rows);
}

template <typename T>
void Executor<T>::Pass::prepare() {
  for (size_t r = 0; r < 3; ++r) {
    const auto bytes =
        static_cast<size_t>(executor_.plan_.arena_columns[r] * rows_.count(static_cast<Rows>(r))) *
        sizeof(T);
    if (executor_.arenas_[r].size() < bytes) executor_.arenas_[r] = AlignedBuffer(bytes);
  }
  prepare_rotary();
  const auto& nodes = executor_.plan_.nodes;
  for (const PlanNode& node : nodes) {
    if (!node.is_gemm && step(node.step).op == Op::kAttention) prepare_attention(node.step);
  }
  launches_.resize(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].is_gemm) prepare_product(nodes[n], launches_[n]);
  }
  size_scratch();
}

template <typename T>
void Executor<T>::Pass::prepare_attention(StepId id) {
  const Step& attention = step(id);
  const auto& params = std::get<AttentionParams>(attention.params);
  const Rows rows = program().value(attention.output).rows;
  const Rows key_rows = program().value(attention.inputs[1]).rows;
  const auto store = static_cast<size_t>(executor_.store_of_step_[static_cast<size_t>(id)]);
  AttentionJob& job = attention_[id];
  job.ranges = rows_.key_ranges(params, rows);
  const auto wanted = [&](ValueId value) {
    return value != kNoId && executor_.plan_.wanted[static_cast<size_t>(value)];
  };
  job.wants_scores = wanted(attention.scores);
  job.wants_pattern = wanted(attention.pattern);
  job.has_wishes = job.wants_scores || job.wants_pattern || wanted(attention.cached_keys) ||
                   wanted(attention.cached_values);
  const bool square = job.wants_scores || job.wants_pattern;
  job.slopes.assign(params.alibi_slopes.begin(), params.alibi_slopes.end());
  job.use_fast = executor_.options_.kernels != nullptr && !square && !params.plain_only();

  for (size_t i = 0; i < sequences_.size(); ++i) {
    KvStore<T>& kv = sequences_[i].state->stores[store];
    const reference::KeyLayout& layout = kv.layout();
    const int64_t keys = rows_.key_count(params, rows, i);
    const int64_t fresh = rows_.count(key_rows, i);
    kv.reserve(keys);
    for (int64_t t = 0; t < fresh; ++t) {
      const int64_t s = keys - fresh + t;
      job.key_rows.push_back(kv.keys() + layout.key(s, 0, 0));
      job.value_rows.push_back(kv.values() + layout.value(s, 0, 0));
    }
    const int64_t begin = rows_.begin(rows, i);
    const int64_t count = rows_.count(rows, i);
    if constexpr (std::is_same_v<T, float>) {
      job.fast.push_back({begin, count, kv.keys(), kv.values()});
    }
    job.plain.push_back({begin, count, keys, kv.keys(), kv.values(), nullptr, nullptr});
    job.square_size += static_cast<size_t>(params.heads * count * keys);
  }
  if (square) {
    for (const PlanNode& node : executor_.plan_.nodes) {
      for (size_t index : node.deliver) {
        const ValueId value = program().sites[index].value;
        job.undelivered += value == attention.scores || value == attention.pattern ? 1 : 0;
      }
    }
  }
  for (const kernels::KeyRange& range : job.ranges) {
    job.begin.push_back(range.begin);
    job.end.push_back(range.end);
  }
}

template <typename T>
void Executor<T>::Pass::add_epilogue(const GemmPartPlan& plan, kernels::GemmPart& part,
                                     std::vector<kernels::EpilogueOp>& ops) {
  if constexpr (std::is_same_v<T, float>) {
    using Kind = kernels::EpilogueOp::Kind;
    const Step& linear = step(plan.linear);
    if (linear.weights[1] != kNoId) {
      ops.push_back({.kind = Kind::kBias,
                     .vector = executor_.weights_.template vector<float>(linear.weights[1])});
    }
    ValueId current = linear.output;
    for (StepId id : plan.epilogue) {
      const Step& next = step(id);
      const auto absorbed = can_absorb(next.op);
      if (!absorbed) throw internal_error("a step that no product can absorb");
      switch (*absorbed) {
        case Absorbed::kScale:
          ops.push_back({.kind = Kind::kScale,
                         .scalar = static_cast<float>(std::get<ScaleParams>(next.params).factor)});
          break;
        case Absorbed::kSoftCap:
          ops.push_back({.kind = Kind::kSoftCap,
                         .scalar = static_cast<float>(std::get<ScaleParams>(next.params).factor)});
          break;
        case Absorbed::kActivation:
          ops.push_back({.kind = Kind::kActivation,
                         .activation = std::get<ActivationParams>(next.params).activation});
          break;
        case Absorbed::kGate: {
          // The activation before it and this product are one gate.
          const Step& value = step(plan.value_linear);
          ops.back().kind = Kind::kGate;
          ops.back().value_bias = executor_.weights_.template vector<float>(value.weights[1]);
          part.value = &executor_.weights_.matrix(value.weights[0]);
          break;
        }
        case Absorbed::kRotary: {
          const auto& params = std::get<RotaryParams>(next.params);
          ops.push_back({.kind = Kind::kRotary,
                         .rotary = &angles(params, program().value(next.output).rows).table,
                         .head_width = params.head_width});
          break;
        }
        case Absorbed::kAdd:
          for (ValueId term : next.inputs) {
            if (term == current) continue;
            ops.push_back({.kind = Kind::kAddRows,
                           .rows = value(term),
                           .stride = program().value(term).width});
          }
          break;
      }
      current = next.output;
    }
  }
}

template <typename T>
void Executor<T>::Pass::prepare_product(const PlanNode& node, Launch& launch) {
  if constexpr (std::is_same_v<T, float>) {
    const Value& input = program().value(node.input);
    launch.input = {.x = value(node.input),
                    .stride = input.width,
                    .rows = rows_.count(input.rows),
                    .columns = input.width};
    if (node.norm != kNoId) {
      const Step& norm = step(node.norm);
      launch.norm = prologue(std::get<NormParams>(norm.params),
                             executor_.weights_.template vector<float>(norm.weights[0]),
                             executor_.weights_.template vector<float>(norm.weights[1]));
      launch.input.norm = &launch.norm;
    }
    launch.private_input = launch.input.rows <= kPrivateInputRows;
    launch.epilogues.resize(node.parts.size());
    for (size_t p = 0; p < node.parts.size(); ++p) {
      const GemmPartPlan& plan = node.parts[p];
      kernels::GemmPart part;
      part.weight = &executor_.weights_.matrix(step(plan.linear).weights[0]);
      part.rows = part.weight->rows;
      add_epilogue(plan, part, launch.epilogues[p]);
      part.epilogue = launch.epilogues[p];
      if (executor_.plan_.stored(plan.output)) {
        part.output.y = value(plan.output);
        part.output.stride = program().value(plan.output).width;
      }
      if (plan.cache_of != kNoId) {
        const auto& params = std::get<AttentionParams>(step(plan.cache_of).params);
        const AttentionJob& job = attention_.at(plan.cache_of);
        part.output.row_pointers = plan.is_key ? job.key_rows.data() : job.value_rows.data();
        part.output.head_width = params.head_width;
        part.output.head_stride = params.head_width * 16;
        part.output.element_stride = plan.is_key ? 16 : 1;
      }
      launch.parts.push_back(part);
    }
  }
}

template <typename T>
kernels::AttentionArgs Executor<T>::Pass::fast_attention_args(StepId id) const {
  kernels::AttentionArgs args;
  if constexpr (std::is_same_v<T, float>) {
    const Step& attention = step(id);
    const auto& params = std::get<AttentionParams>(attention.params);
    const AttentionJob& job = attention_.at(id);
    args.heads = params.heads;
    args.kv_heads = params.kv_heads;
    args.head_width = params.head_width;
    args.scale = static_cast<float>(params.scale);
    args.soft_cap = static_cast<float>(params.soft_cap);
    if (!job.slopes.empty()) args.alibi_slopes = job.slopes.data();
    args.scratch = executor_.scratch_.data();
    args.sequences = job.fast;
    args.ranges = job.ranges.data();
    args.q = value(attention.inputs[0]);
    args.q_stride = params.heads * params.head_width;
    args.out = value(attention.output);
    args.out_stride = args.q_stride;
  }
  return args;
}

template <typename T>
void Executor<T>::Pass::size_scratch() {
  size_t widest_row = 0;
  int64_t most_keys = 0;
  for (const Value& each : program().values) {
    widest_row = std::max(widest_row, static_cast<size_t>(each.width));
  }
  for (const auto& [id, job] : attention_) {
    for (const auto& sequence : job.plain) most_keys = std::max(most_keys, sequence.key_count);
  }
  scratch_stride_ =
      std::max(widest_row * sizeof(T), static_cast<size_t>(most_keys) * sizeof(double));
  size_t packed = 0;
  size_t packed_shared = 0;
  size_t shared = 0;  // one memory for all workers of an attention step
  if constexpr (std::is_same_v<T, float>) {
    if (const kernels::CpuKernels* table = executor_.options_.kernels) {
      for (const Launch& launch : launches_) {
        if (launch.parts.empty()) continue;
        const size_t need = table->packed_input_bytes(launch.input.rows, launch.input.columns,
                                                      executor_.options_.precision);
        (launch.private_input ? packed : packed_shared) =
            std::max(launch.private_input ? packed : packed_shared, need);
        scratch_stride_ = std::max(
            scratch_stride_, table->gemm_scratch_bytes(launch.input.rows, launch.input.columns));
      }
      for (const auto& [id, job] : attention_) {
        if (!job.use_fast) continue;
        shared =
            std::max(shared, table->attention_scratch_bytes(fast_attention_args(id), threads_));
      }
    }
  }
  if constexpr (std::is_same_v<T, double>) {
    for (const PlanNode& node : executor_.plan_.nodes) {
      const Step& each = step(node.step);
      if (each.op != Op::kLinear || executor_.options_.plain_products) continue;
      packed_shared = std::max(packed_shared, product_input_bytes(each));
      scratch_stride_ = std::max(scratch_stride_, product_scratch_bytes(each));
    }
  }
  const auto round = [](size_t bytes) { return (bytes + 127) / 128 * 128; };
  scratch_stride_ = round(scratch_stride_);
  packed_stride_ = round(packed);
  const auto workers = static_cast<size_t>(threads_);
  const size_t scratch_bytes = std::max(scratch_stride_ * workers, shared);
  if (executor_.scratch_.size() < scratch_bytes) executor_.scratch_ = AlignedBuffer(scratch_bytes);
  const size_t packed_bytes = std::max(packed_stride_ * workers, packed_shared);
  if (executor_.packed_.size() < packed_bytes) executor_.packed_ = AlignedBuffer(packed_bytes);
}

template class Executor<float>::Pass;
template class Executor<double>::Pass;

}  // namespace mainstem
