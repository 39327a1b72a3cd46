// Products without fast kernels: by the plain loops, in blocked double, and in float32 as
// implementations of lower precision do them.

#include <algorithm>
#include <cmath>

#include "kernels/reference/quantize.h"
#include "runtime/executor_pass.h"

namespace mainstem {

template <typename T>
void Executor<T>::Pass::run_linear(const Step& each, const Worker& worker) {
  if constexpr (std::is_same_v<T, double>) {
    if (executor_.options_.rules != nullptr) return run_rounded_product(each, worker);
    if (!executor_.options_.plain_products) return run_double_product(each, worker);
  }
  const Value& input = program().value(each.inputs[0]);
  const reference::RowReader<T> reader = [&](int64_t row, T* out) {
    check_cancel();
    executor_.weights_.read_weight_row(each.weights[0], row, out);
  };
  reference::linear<T>(value(each.inputs[0]), rows_.count(input.rows), input.width, reader,
                       program().value(each.output).width,
                       executor_.weights_.template vector<T>(each.weights[1]), value(each.output),
                       reinterpret_cast<T*>(worker_scratch(worker)), worker);
}

template <typename T>
kernels::ChainOrder Executor<T>::Pass::product_order(const Step& linear) const {
  const int64_t columns = program().value(linear.inputs[0]).width;
  const reference::ArithmeticRules* rules = executor_.options_.rules;
  return rules != nullptr ? kernels::chain_order(rules->order, columns)
                          : kernels::double_chain_order(columns);
}

template <typename T>
size_t Executor<T>::Pass::product_input_bytes(const Step& linear) const {
  const kernels::ChainOrder order = product_order(linear);
  const int64_t rows = row_count(linear.inputs[0]);
  return executor_.options_.rules != nullptr ? kernels::chain_input_bytes<float>(rows, order)
                                             : kernels::chain_input_bytes<double>(rows, order);
}

template <typename T>
size_t Executor<T>::Pass::product_scratch_bytes(const Step& linear) const {
  const kernels::ChainOrder order = product_order(linear);
  const int64_t columns = program().value(linear.inputs[0]).width;
  return executor_.options_.rules != nullptr ? kernels::chain_scratch_bytes<float>(columns, order)
                                             : kernels::chain_scratch_bytes<double>(columns, order);
}

namespace {

/// Packs the input for all workers, then each makes its columns.
template <typename Number>
void run_chains(const kernels::ChainInput& input, std::byte* packed,
                kernels::ChainProduct<Number> product, const Worker& worker) {
  const kernels::Isa isa = kernels::active_isa();
  product.rows = input.rows;
  product.columns = input.columns;
  product.order = input.order;
  product.packed = packed;
  kernels::pack_chain_input<Number>(isa, input, packed, worker);
  worker.sync();
  kernels::chain_product<Number>(isa, product, worker);
}

}  // namespace

template <>
void Executor<double>::Pass::run_double_product(const Step& linear, const Worker& worker) {
  const kernels::ChainOrder order = product_order(linear);
  const int64_t width = program().value(linear.output).width;
  const double* bias = executor_.weights_.vector<double>(linear.weights[1]);
  double* y = value(linear.output);
  run_chains<double>({.x = value(linear.inputs[0]),
                      .rows = row_count(linear.inputs[0]),
                      .columns = program().value(linear.inputs[0]).width,
                      .order = &order},
                     executor_.packed_.data(),
                     {.outputs = width,
                      .weight =
                          [&](int64_t row, double* out) {
                            check_cancel();
                            executor_.weights_.read_weight_row(linear.weights[0], row, out);
                          },
                      .finish =
                          [&](int64_t m, int64_t n, std::span<const double> sums) {
                            double* out = y + m * width + n;
                            for (size_t i = 0; i < sums.size(); ++i) {
                              out[i] = sums[i] +
                                       (bias != nullptr ? bias[n + static_cast<int64_t>(i)] : 0.0);
                            }
                          },
                      .scratch = worker_scratch(worker)},
                     worker);
}

template <>
void Executor<double>::Pass::run_rounded_product(const Step& linear, const Worker& worker) {
  const reference::ArithmeticRules& rules = *executor_.options_.rules;
  const reference::Rounded arithmetic(rules);
  const kernels::ChainOrder order = product_order(linear);
  const int64_t width = program().value(linear.output).width;
  const int64_t columns = program().value(linear.inputs[0]).width;
  const DType stored = executor_.weights_.source(linear.weights[0]).dtype();
  const double* bias = executor_.weights_.vector<double>(linear.weights[1]);
  double* y = value(linear.output);

  kernels::ChainInput input{.x = value(linear.inputs[0]),
                            .rows = row_count(linear.inputs[0]),
                            .columns = columns,
                            .order = &order};
  if (rules.round_inputs) {
    input.round_row = [&](std::span<double> row) {
      reference::round_product_input(stored, rules.f16_block_scale, row);
    };
  }
  kernels::ChainProduct<float> product{
      .outputs = width,
      .weight =
          [&](int64_t row, float* out) {
            check_cancel();
            executor_.weights_.read_weight_row(linear.weights[0], row, out);
            if (rules.storage == reference::Storage::kF32) return;
            for (int64_t k = 0; k < columns; ++k) out[k] = arithmetic.store(out[k]);
          },
      .finish =
          [&](int64_t m, int64_t n, std::span<const float> sums) {
            double* out = y + m * width + n;
            for (size_t i = 0; i < sums.size(); ++i) {
              float sum = sums[i];
              if (bias != nullptr) {
                if (rules.store_before_bias) sum = arithmetic.store(sum);
                sum += arithmetic.weight(bias[n + static_cast<int64_t>(i)]);
              }
              out[i] = static_cast<double>(arithmetic.store(sum));
            }
          },
      .scratch = worker_scratch(worker)};
  if (rules.store_halves) {
    product.round_run = [&](std::span<float> sums) {
      for (float& sum : sums) sum = arithmetic.store(sum);
    };
  }
  run_chains<float>(input, executor_.packed_.data(), std::move(product), worker);
}

template <>
void Executor<float>::Pass::run_double_product(const Step&, const Worker&) {}
template <>
void Executor<float>::Pass::run_rounded_product(const Step&, const Worker&) {}

template void Executor<float>::Pass::run_linear(const Step&, const Worker&);
template void Executor<double>::Pass::run_linear(const Step&, const Worker&);
template size_t Executor<float>::Pass::product_input_bytes(const Step&) const;
template size_t Executor<double>::Pass::product_input_bytes(const Step&) const;
template size_t Executor<float>::Pass::product_scratch_bytes(const Step&) const;
template size_t Executor<double>::Pass::product_scratch_bytes(const Step&) const;

}  // namespace mainstem
