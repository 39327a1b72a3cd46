// How each kind of step runs, on the plain or on the fast kernels.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mainstem/error.h"
#include "mainstem/session.h"
#include "runtime/executor_pass.h"

namespace mainstem {

template <typename T>
void Executor<T>::Pass::check_cancel() const {
  const std::atomic<bool>* cancel = executor_.options_.cancel;
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) throw Cancelled();
}

template <typename T>
void Executor<T>::Pass::run_node(size_t number, const Worker& worker) {
  const PlanNode& node = executor_.plan_.nodes[number];
  if (node.is_gemm) {
    run_product(launches_[number], worker);
  } else {
    run_step(node, worker);
  }
}

template <typename T>
void Executor<T>::Pass::run_product(const Launch& launch, const Worker& worker) {
  if constexpr (std::is_same_v<T, float>) {
    const kernels::CpuKernels& table = *executor_.options_.kernels;
    const auto precision = executor_.options_.precision;
    std::byte* packed = executor_.packed_.data();
    if (launch.private_input) {
      packed += static_cast<size_t>(worker.index) * packed_stride_;
      table.pack_input(launch.input, precision, packed, Worker::alone());
    } else {
      table.pack_input(launch.input, precision, packed, worker);
      worker.sync();
    }
    table.gemm(packed, launch.input.rows, launch.input.columns, precision, launch.parts,
               worker_scratch(worker), worker);
  }
}

template <typename T>
void Executor<T>::Pass::run_step(const PlanNode& node, const Worker& worker) {
  const Step& each = step(node.step);
  switch (each.op) {
    case Op::kTokens:
      return;
    case Op::kInput:
    case Op::kEmbedTokens:
    case Op::kEmbedPositions:
    case Op::kSinusoid:
    case Op::kEmbedTypes:
      return run_embedding(each, worker);
    case Op::kAdd:
    case Op::kScale:
    case Op::kSoftCap:
    case Op::kActivation:
    case Op::kMultiply:
      return run_elementwise(each, worker);
    case Op::kNorm:
      return run_norm(each, worker);
    case Op::kLinear:
      return run_linear(each, worker);
    case Op::kRotary:
      return run_rotary(each, worker);
    case Op::kAttention:
      return run_attention(node, worker);
    case Op::kSelectRows: {
      const int64_t width = program().value(each.output).width;
      const auto wanted = rows_.head_rows();
      const auto [begin, end] = worker.slice(static_cast<int64_t>(wanted.size()));
      for (int64_t m = begin; m < end; ++m) {
        std::copy_n(value(each.inputs[0]) + wanted[static_cast<size_t>(m)] * width, width,
                    value(each.output) + m * width);
      }
      return;
    }
    case Op::kCustom:
      return run_custom(each, worker);
  }
}

template <typename T>
void Executor<T>::Pass::store(T* values, int64_t count) const {
  if constexpr (std::is_same_v<T, double>) {
    const reference::ArithmeticRules* rules = executor_.options_.rules;
    if (rules == nullptr) return;
    const reference::Rounded arithmetic(*rules);
    for (int64_t i = 0; i < count; ++i) values[i] = arithmetic.store(static_cast<float>(values[i]));
  }
}

template <typename T>
void Executor<T>::Pass::run_embedding(const Step& each, const Worker& worker) {
  const Value& output = program().value(each.output);
  T* y = value(each.output);
  const auto [begin, end] = worker.slice(rows_.count(output.rows));
  if (each.op == Op::kInput) {
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const int64_t first = rows_.begin(output.rows, i);
      for (int64_t m = std::max(begin, first);
           m < std::min(end, first + rows_.count(output.rows, i)); ++m) {
        std::copy_n(sequences_[i].input.data() + (m - first) * output.width, output.width,
                    y + m * output.width);
        store(y + m * output.width, output.width);
      }
    }
    return;
  }
  const auto& params = std::get<EmbedParams>(each.params);
  std::vector<int64_t> by_rule;
  std::span<const int64_t> positions = rows_.positions(output.rows);
  if (params.position != RowPosition::kRight) {
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const auto own = rows_.positions(output.rows, i, params.position);
      by_rule.insert(by_rule.end(), own.begin(), own.end());
    }
    positions = by_rule;
  }
  if (params.restarts != Restarts{}) {
    std::vector<int64_t> restarted(positions.begin(), positions.end());
    for (int64_t& position : restarted) position = params.restarts.place(position);
    by_rule = std::move(restarted);
    positions = by_rule;
  }
  // Rows that the caller asked for were checked; a mistake may point beside the table.
  const auto read_row = [&](int64_t wanted, T* out) {
    const int64_t rows = program().weight(each.weights[0]).shape[0];
    wanted = params.only_row.value_or(wanted + params.offset);
    executor_.weights_.read_weight_row(each.weights[0], std::clamp<int64_t>(wanted, 0, rows - 1),
                                       out);
  };
  const auto ids = rows_.ids(output.rows);
  const auto types = rows_.token_types();
  const auto half = output.width / 2;
  for (int64_t m = begin; m < end; ++m) {
    const auto row = static_cast<size_t>(m);
    T* out = y + m * output.width;
    if (each.op == Op::kSinusoid) {
      for (int64_t d = 0; d < output.width; ++d) {
        const bool halves = params.kind == PositionKind::kSinusoidalHalves;
        // In halves an odd width gives the sines the extra channel.
        const int64_t sines = output.width - half;
        const int64_t i = halves ? (d < sines ? d : d - sines) : d / 2;
        const bool is_sine = halves ? d < sines : d % 2 == 0;
        double angle =
            static_cast<double>(positions[row] + params.offset) /
            std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(output.width));
        if (executor_.options_.rules != nullptr)
          angle = static_cast<double>(static_cast<float>(angle));
        out[d] = static_cast<T>(is_sine ? std::sin(angle) : std::cos(angle));
      }
    } else if (each.op == Op::kEmbedPositions) {
      read_row(positions[row], out);
    } else if (each.op == Op::kEmbedTypes) {
      read_row(output.rows == Rows::kMain ? types[row] : 0, out);
    } else {
      read_row(ids[row], out);
    }
    store(out, output.width);
  }
}

template <typename T>
void Executor<T>::Pass::run_norm(const Step& each, const Worker& worker) {
  const auto& params = std::get<NormParams>(each.params);
  const int64_t width = program().value(each.output).width;
  const int64_t rows = row_count(each.output);
  const T* weight = executor_.weights_.template vector<T>(each.weights[0]);
  const T* bias = executor_.weights_.template vector<T>(each.weights[1]);
  if constexpr (std::is_same_v<T, float>) {
    // Groups that share a weight are rows of their own; a weight per group is rare.
    if (executor_.options_.kernels != nullptr && !params.weight_per_group) {
      const kernels::NormPrologue norm{
          .layer_norm = params.norm.kind == NormKind::kLayer,
          .eps = static_cast<float>(params.norm.eps),
          .weight_offset = static_cast<float>(params.norm.weight_offset),
          .weight = weight,
          .bias = bias};
      const kernels::GemmInput input{.x = value(each.inputs[0]),
                                     .stride = params.group,
                                     .rows = rows * (width / params.group),
                                     .columns = params.group,
                                     .norm = &norm};
      return executor_.options_.kernels->norm(input, value(each.output), params.group, worker);
    }
  }
  with_arithmetic([&](const auto& arithmetic) {
    reference::norm<T>(value(each.inputs[0]), rows, width,
                       {.layer_norm = params.norm.kind == NormKind::kLayer,
                        .eps = params.norm.eps,
                        .weight_offset = params.norm.weight_offset,
                        .group = params.group,
                        .weight_per_group = params.weight_per_group},
                       weight, bias, value(each.output), worker, arithmetic);
  });
}

template <typename T>
bool Executor<T>::Pass::run_fast_elementwise(const Step& each, int64_t count,
                                             const Worker& worker) {
  if constexpr (std::is_same_v<T, float>) {
    const kernels::CpuKernels* table = executor_.options_.kernels;
    if (table == nullptr) return false;
    const T* a = value(each.inputs[0]);
    T* y = value(each.output);
    switch (each.op) {
      case Op::kActivation:
        table->activation(std::get<ActivationParams>(each.params).activation, a, y, count, worker);
        return true;
      case Op::kMultiply:
        table->multiply(a, value(each.inputs[1]), y, count, worker);
        return true;
      case Op::kScale:
        table->scale(static_cast<float>(std::get<ScaleParams>(each.params).factor), a, y, count,
                     worker);
        return true;
      default:
        break;  // the plain loops
    }
  }
  return false;
}

template <typename T>
void Executor<T>::Pass::run_elementwise(const Step& each, const Worker& worker) {
  const int64_t count = row_count(each.output) * program().value(each.output).width;
  if (run_fast_elementwise(each, count, worker)) return;
  T* y = value(each.output);
  std::vector<const T*> x;
  for (ValueId input : each.inputs) x.push_back(value(input));
  with_arithmetic([&](const auto& arithmetic) {
    switch (each.op) {
      case Op::kActivation:
        return reference::activation(std::get<ActivationParams>(each.params).activation, x[0], y,
                                     count, worker, arithmetic);
      case Op::kMultiply:
        return reference::multiply(x[0], x[1], y, count, worker, arithmetic);
      case Op::kScale:
        return reference::scale(std::get<ScaleParams>(each.params).factor, x[0], y, count, worker,
                                arithmetic);
      case Op::kSoftCap:
        return reference::soft_cap(std::get<ScaleParams>(each.params).factor, x[0], y, count,
                                   worker, arithmetic);
      default:
        return reference::add(std::span<const T* const>(x), y, count, worker, arithmetic);
    }
  });
}

template <typename T>
void Executor<T>::Pass::run_rotary(const Step& each, const Worker& worker) {
  const auto& params = std::get<RotaryParams>(each.params);
  const Rows rows = program().value(each.output).rows;
  const RotaryAngles& a = angles(params, rows);
  const int64_t stride = params.heads * params.head_width;
  if constexpr (std::is_same_v<T, float>) {
    if (const kernels::CpuKernels* table = executor_.options_.kernels) {
      return table->rotary(a.table, rows_.count(rows), params.heads, params.head_width,
                           value(each.inputs[0]), stride, value(each.output), stride, worker);
    }
  }
  with_arithmetic([&](const auto& arithmetic) {
    reference::rotary<T>(a.cosine.data(), a.sine.data(), params.rotary.width,
                         params.rotary.pairing == RotaryPairing::kInterleaved, rows_.count(rows),
                         params.heads, params.head_width, value(each.inputs[0]), value(each.output),
                         worker, arithmetic);
  });
}

template <typename T>
void Executor<T>::Pass::run_custom(const Step& each, const Worker& worker) {
  const auto& params = std::get<CustomParams>(each.params);
  if (params.apply_sequence) return run_custom_sequences(each, worker);
  const Value& output = program().value(each.output);
  std::vector<std::vector<double>> rows(each.inputs.size());
  std::vector<std::span<const double>> spans(each.inputs.size());
  for (WeightId weight : each.weights) {
    if (weight == kNoId) continue;
    const auto count = static_cast<size_t>(element_count(program().weight(weight).shape));
    spans.emplace_back(executor_.weights_.template vector<double>(weight), count);
  }
  std::vector<double> out(static_cast<size_t>(output.width));
  const auto positions = rows_.positions(output.rows == Rows::kHead ? Rows::kMain : output.rows);
  const auto [begin, end] = worker.slice(rows_.count(output.rows));
  for (int64_t m = begin; m < end; ++m) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t width = program().value(each.inputs[i]).width;
      const T* x = value(each.inputs[i]) + m * width;
      rows[i].assign(x, x + width);
      spans[i] = rows[i];
    }
    const int64_t main = output.rows == Rows::kHead ? rows_.head_rows()[static_cast<size_t>(m)] : m;
    params.apply(spans, out, positions[static_cast<size_t>(main)]);
    T* y = value(each.output) + m * output.width;
    std::transform(out.begin(), out.end(), y, [](double v) { return static_cast<T>(v); });
    store(y, output.width);
  }
}

template <typename T>
void Executor<T>::Pass::run_custom_sequences(const Step& each, const Worker& worker) {
  const auto& params = std::get<CustomParams>(each.params);
  const Value& output = program().value(each.output);
  std::vector<std::vector<double>> inputs(each.inputs.size());
  std::vector<std::span<const double>> spans(each.inputs.size());
  std::vector<double> out;
  const auto [begin, end] = worker.slice(static_cast<int64_t>(sequences_.size()));
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = rows_.begin(output.rows, static_cast<size_t>(i));
    const int64_t rows = rows_.count(output.rows, static_cast<size_t>(i));
    for (size_t k = 0; k < inputs.size(); ++k) {
      const int64_t width = program().value(each.inputs[k]).width;
      const T* x = value(each.inputs[k]) + first * width;
      inputs[k].assign(x, x + rows * width);
      spans[k] = inputs[k];
    }
    out.resize(static_cast<size_t>(rows * output.width));
    params.apply_sequence(spans, out, rows);
    T* y = value(each.output) + first * output.width;
    std::transform(out.begin(), out.end(), y, [](double v) { return static_cast<T>(v); });
    store(y, rows * output.width);
  }
}

template class Executor<float>::Pass;
template class Executor<double>::Pass;

}  // namespace mainstem
