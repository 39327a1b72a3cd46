// LayerNorm against RMSNorm, one thread: a norm on its own ("norm"), and one that is applied while
// the rows are laid out for the product that follows ("fused"), as the planner does it.
//
//   bench_norms --benchmark_repetitions=9 --benchmark_report_aggregates_only=true

#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/cpu_kernels.h"

namespace mainstem::kernels {
namespace {

constexpr int64_t kRows = 128;

std::vector<float> random_floats(int64_t count) {
  static std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = normal(engine);
  return x;
}

void run_norm(benchmark::State& state, bool layer_norm, bool fused) {
  const int64_t width = state.range(0);
  const std::vector<float> x = random_floats(kRows * width);
  const std::vector<float> weight = random_floats(width), bias = random_floats(width);
  const NormPrologue norm{.layer_norm = layer_norm,
                          .eps = 1e-5F,
                          .weight_offset = 0,
                          .weight = weight.data(),
                          .bias = layer_norm ? bias.data() : nullptr};
  const GemmInput input{
      .x = x.data(), .stride = width, .rows = kRows, .columns = width, .norm = &norm};
  const CpuKernels& kernels = cpu_kernels();
  std::vector<float> y(static_cast<size_t>(kRows * width));
  AlignedBuffer packed(kernels.packed_input_bytes(kRows, width, InputPrecision::kF32));
  for (auto _ : state) {
    if (fused) {
      kernels.pack_input(input, InputPrecision::kF32, packed.data(), Worker::alone());
      benchmark::DoNotOptimize(packed.data());
    } else {
      kernels.norm(input, y.data(), width, Worker::alone());
      benchmark::DoNotOptimize(y.data());
    }
    benchmark::ClobberMemory();
  }
  state.counters["per_row"] =
      benchmark::Counter(static_cast<double>(kRows), benchmark::Counter::kIsIterationInvariantRate |
                                                         benchmark::Counter::kInvert);
  state.SetLabel(std::string(name(kernels.isa)));
}

void register_all() {
  for (const bool fused : {false, true}) {
    for (const bool layer_norm : {true, false}) {
      const std::string label =
          std::string(fused ? "fused/" : "norm/") + (layer_norm ? "layer" : "rms");
      benchmark::RegisterBenchmark(
          label.c_str(), [=](benchmark::State& state) { run_norm(state, layer_norm, fused); })
          ->Arg(64)
          ->Arg(256)
          ->Arg(576)
          ->Arg(2048)
          ->Arg(4096)
          ->Arg(8192);
    }
  }
}

}  // namespace
}  // namespace mainstem::kernels

int main(int argc, char** argv) {
  mainstem::kernels::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
