#include "mainstem/block.h"

#include "mainstem/error.h"

namespace mainstem {
namespace {

template <typename T>
std::vector<SequenceInput> split_batch(std::span<const T> x, int64_t batch, int64_t width) {
  const auto total = static_cast<int64_t>(x.size());
  if (batch < 1 || total == 0 || total % (batch * width) != 0) {
    throw usage_error("block input",
                      "whole rows of " + std::to_string(width) + " values for each of " +
                          std::to_string(batch) + " sequences",
                      std::to_string(total) + " values");
  }
  std::vector<SequenceInput> inputs(static_cast<size_t>(batch));
  const int64_t each = total / batch;
  for (int64_t b = 0; b < batch; ++b) {
    auto& input = inputs[static_cast<size_t>(b)].input;
    input.assign(x.begin() + b * each, x.begin() + (b + 1) * each);
  }
  return inputs;
}

std::vector<double> run(const std::shared_ptr<const BoundProgram>& bound,
                        std::vector<SequenceInput> inputs, Compute compute, int threads) {
  Session session(bound, {.compute = compute, .threads = threads});
  for (SequenceInput& input : inputs) input.sequence = session.add_sequence();
  return session.forward_all(inputs);
}

}  // namespace

Block::Block(const BlockSpec& spec, const WeightSources& weights)
    : bound_(std::make_shared<BoundProgram>(build_block_program(spec), weights)) {}

std::vector<float> Block::forward(std::span<const float> x, int64_t batch, Compute compute,
                                  int threads) const {
  const auto rows =
      run(bound_, split_batch(x, batch, program().spec.stack.width), compute, threads);
  return {rows.begin(), rows.end()};
}

std::vector<double> Block::forward(std::span<const double> x, int64_t batch, int threads) const {
  return run(bound_, split_batch(x, batch, program().spec.stack.width), Compute::kF64, threads);
}

std::vector<TracedValue> Block::trace(std::span<const double> x, int64_t batch,
                                      std::vector<SiteId> sites, Compute compute,
                                      int threads) const {
  return mainstem::trace(bound_, split_batch(x, batch, program().spec.stack.width),
                         std::move(sites), compute, threads);
}

std::vector<WeightInfo> Block::weight_names(const BlockSpec& spec) {
  return build_block_program(spec).weights;
}

}  // namespace mainstem
