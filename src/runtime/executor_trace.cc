// Wanted values, handed out in their [B,T,…] shapes.

#include "mainstem/error.h"
#include "runtime/executor_pass.h"

namespace mainstem {
namespace {

template <typename T>
constexpr DType kDTypeOf = std::is_same_v<T, float> ? DType::kF32 : DType::kF64;

}  // namespace

template <typename T>
Shape Executor<T>::Pass::shape_of(const Value& value) const {
  const Step& producer = step(value.producer);
  Shape shape;
  for (const Dim& dim : value.dims) {
    if (dim.size >= 0) {
      shape.push_back(dim.size);
    } else if (dim.letter == 'B') {
      shape.push_back(static_cast<int64_t>(sequences_.size()));
    } else if (dim.letter == 'T') {
      shape.push_back(rows_.count(value.rows, 0));
    } else {
      shape.push_back(rows_.key_count(std::get<AttentionParams>(producer.params),
                                      program().value(producer.output).rows, 0));
    }
  }
  return shape;
}

template <typename T>
bool Executor<T>::Pass::needs_square(const PlanNode& node) const {
  if (node.is_gemm || step(node.step).op != Op::kAttention) return false;
  const AttentionJob& job = attention_.at(node.step);
  return job.wants_scores || job.wants_pattern;
}

/// Memory for one attention step's scores and pattern. They are by far the largest values of a
/// long pass, so steps take turns with it.
template <typename T>
void Executor<T>::Pass::open_square(const PlanNode& node) {
  AttentionJob& job = attention_.at(node.step);
  const size_t squares = (job.wants_scores ? 1 : 0) + (job.wants_pattern ? 1 : 0);
  const size_t bytes = squares * job.square_size * sizeof(T);
  auto& spare = executor_.squares_;
  while (!spare.empty() && job.square.size() < bytes) {
    job.square = std::move(spare.back());
    spare.pop_back();
  }
  if (job.square.size() < bytes) {
    job.square = {};
    job.square = AlignedBuffer(bytes);
  }
  if (job.wants_scores) job.scores = job.square.template as<T>();
  if (job.wants_pattern) {
    job.pattern = job.square.template as<T>() + (job.wants_scores ? job.square_size : 0);
  }
  const auto heads = std::get<AttentionParams>(step(node.step).params).heads;
  int64_t at = 0;
  for (reference::AttentionSequence<T>& sequence : job.plain) {
    if (job.wants_scores) sequence.scores = job.scores + at;
    if (job.wants_pattern) sequence.pattern = job.pattern + at;
    at += heads * sequence.rows * sequence.key_count;
  }
}

/// Shows a value, then lets it be changed.
template <typename T>
void Executor<T>::Pass::tell(const TraceEvent& event, T* data) const {
  if (watch_.sink) watch_.sink(event);
  if (watch_.patch && data != nullptr) watch_.patch(event, data);
}

/// Keys or values as attention reads them: a copy without the cache's order, whose changes go back.
template <typename T>
void Executor<T>::Pass::deliver_cache(const SiteId& site, const Step& attention, bool keys) {
  const auto& params = std::get<AttentionParams>(attention.params);
  const auto id = program().value(attention.output).producer;
  const auto store = static_cast<size_t>(executor_.store_of_step_[static_cast<size_t>(id)]);
  const int64_t count = rows_.key_count(params, Rows::kMain, 0);
  Tensor copy(kDTypeOf<T>,
              {static_cast<int64_t>(sequences_.size()), count, params.kv_heads, params.head_width});
  const auto for_each = [&](const auto& visit) {
    T* at = copy.template data<T>();
    for (const PassSequence<T>& sequence : sequences_) {
      const KvStore<T>& kv = sequence.state->stores[store];
      for (int64_t s = 0; s < count; ++s) {
        for (int64_t g = 0; g < params.kv_heads; ++g) {
          for (int64_t e = 0; e < params.head_width; ++e) {
            visit(*at++, keys ? kv.keys()[kv.layout().key(s, g, e)]
                              : kv.values()[kv.layout().value(s, g, e)]);
          }
        }
      }
    }
  };
  for_each([](T& mine, T& cached) { mine = cached; });
  tell({site, copy.view()}, copy.template data<T>());
  if (watch_.patch) for_each([](T& mine, T& cached) { cached = mine; });
}

template <typename T>
auto Executor<T>::Pass::stage_of(ValueId value) const -> Stage {
  const Step& producer = step(program().value(value).producer);
  if (value == producer.cached_keys || value == producer.cached_values) return Stage::kCache;
  if (value == producer.scores) return Stage::kScores;
  return value == producer.pattern ? Stage::kPattern : Stage::kRest;
}

template <typename T>
void Executor<T>::Pass::deliver(const PlanNode& node) {
  for (size_t index : node.deliver) deliver(program().sites[index]);
}

template <typename T>
void Executor<T>::Pass::deliver(const PlanNode& node, Stage stage) {
  for (size_t index : node.deliver) {
    const NamedValue& named = program().sites[index];
    if (stage_of(named.value) == stage) deliver(named);
  }
}

template <typename T>
void Executor<T>::Pass::deliver(const NamedValue& named) {
  const Value& each = program().value(named.value);
  const Step& producer = step(each.producer);
  if (producer.op == Op::kTokens) {
    const TensorView ids(DType::kI64, shape_of(each), rows_.ids(each.rows).data());
    return tell({named.site, ids}, nullptr);
  }
  if (named.value == producer.cached_keys || named.value == producer.cached_values) {
    if (!rows_.continues()) return;
    return deliver_cache(named.site, producer, named.value == producer.cached_keys);
  }
  if (named.value != producer.scores && named.value != producer.pattern) {
    T* data = value(named.value);
    return tell({named.site, TensorView(kDTypeOf<T>, shape_of(each), data)}, data);
  }
  AttentionJob& job = attention_.at(each.producer);
  T* data = named.value == producer.scores ? job.scores : job.pattern;
  tell({named.site, TensorView(kDTypeOf<T>, shape_of(each), data)}, data);
  if (--job.undelivered == 0) executor_.squares_.push_back(std::move(job.square));
}

template class Executor<float>::Pass;
template class Executor<double>::Pass;

}  // namespace mainstem
