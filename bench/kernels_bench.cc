// Kernels at the shapes of SmolLM2-135M (and a large square), as a share of what this machine can
// do: "of_peak" for products (fused multiply-adds or 8-bit dot products), "of_read" for decoding,
// where weights are cold: more of them are cycled through than the caches hold.
//
//   bench_kernels --benchmark_filter=gemm/q4_1 --benchmark_repetitions=5

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/chain_product.h"
#include "kernels/cpu_kernels.h"

namespace mainstem::kernels {
namespace {

const MachineLimits& limits(int threads) {
  static std::vector<MachineLimits> known(64);
  MachineLimits& l = known[static_cast<size_t>(threads)];
  if (l.f32_gflops == 0) l = measure_limits(threads);
  return l;
}

std::vector<float> random_floats(int64_t count) {
  static std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = normal(engine);
  return x;
}

/// Copies of one random matrix, as many as fill `bytes`.
struct Weights {
  Weights(DType dtype, bool plain, int64_t rows, int64_t columns, size_t bytes) {
    const DTypeInfo& type = info(dtype);
    const int64_t blocks = rows * columns / type.block_elements;
    source = AlignedBuffer(static_cast<size_t>(blocks * type.block_bytes));
    std::mt19937 engine(2);
    for (size_t i = 0; i + 1 < source.size(); i += 2) {
      // Every pair of bytes also makes a small f16, a fair bfloat16 and half of a float.
      const auto h = static_cast<uint16_t>(0x2000u | (engine() & 0x1FFFu));
      std::memcpy(source.data() + i, &h, 2);
    }
    const TensorView view(dtype, {rows, columns}, source.data());
    const PackFormat format = plain ? PackFormat::kPlain : pack_format_for(dtype);
    const size_t each = plain ? source.size() : packed_bytes(format, rows, columns);
    const size_t count = std::max<size_t>(1, bytes / each);
    memory = AlignedBuffer(each * count);
    for (size_t i = 0; i < count; ++i) {
      std::byte* at = memory.data() + i * each;
      if (plain) {
        std::memcpy(at, source.data(), each);
        matrices.push_back({.format = format,
                            .dtype = dtype,
                            .rows = rows,
                            .columns = columns,
                            .data = at,
                            .stride_bytes = static_cast<size_t>(view.row_bytes())});
      } else {
        matrices.push_back(pack_weights(view, format, {}, at, Worker::alone()));
      }
    }
    bytes_each = each;
  }
  AlignedBuffer source, memory;
  std::vector<WeightMatrix> matrices;
  size_t bytes_each = 0;
};

constexpr size_t kColdBytes = size_t{256} << 20;

void run_products(benchmark::State& state, Isa isa, DType dtype, bool plain,
                  InputPrecision precision, int64_t m, int64_t n, int64_t k, int threads,
                  bool packs) {
  const CpuKernels& kernels = cpu_kernels(isa);
  const bool cold = m <= 8;
  Weights weights(dtype, plain, n, k, cold ? kColdBytes : 0);
  const std::vector<float> x = random_floats(m * k);
  std::vector<float> y(static_cast<size_t>(m * n));
  const AlignedBuffer packed(kernels.packed_input_bytes(m, k, precision));
  const size_t each = (kernels.gemm_scratch_bytes(m, k) + 63) / 64 * 64;
  const AlignedBuffer scratch(each * static_cast<size_t>(threads));
  const GemmInput input{.x = x.data(), .stride = k, .rows = m, .columns = k};
  kernels.pack_input(input, precision, packed.data(), Worker::alone());
  for (auto _ : state) {
    ThreadPool::shared().run(threads, [&](const Worker& worker) {
      for (const WeightMatrix& w : weights.matrices) {
        if (packs) {
          kernels.pack_input(input, precision, packed.data(), worker);
          worker.sync();
        }
        const GemmPart part{.weight = &w, .rows = n, .output = {.y = y.data(), .stride = n}};
        kernels.gemm(packed.data(), m, k, precision, {&part, 1},
                     scratch.data() + each * static_cast<size_t>(worker.index), worker);
        if (packs) worker.sync();
      }
    });
    benchmark::DoNotOptimize(y.data());
  }
  const double runs =
      static_cast<double>(state.iterations()) * static_cast<double>(weights.matrices.size());
  const MachineLimits& l = limits(threads);
  const bool int8 = precision == InputPrecision::kInt8;
  const double flops = 2.0 * static_cast<double>(m * n * k) * runs / 1e9;
  const double gb = static_cast<double>(weights.bytes_each) * runs / 1e9;
  const double peak = int8 ? l.int8_gops : l.f32_gflops;
  state.counters["GFLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsRate);
  if (cold) {
    state.counters["GB/s"] = benchmark::Counter(gb, benchmark::Counter::kIsRate);
    state.counters["of_read"] = benchmark::Counter(gb / l.read_gb_s, benchmark::Counter::kIsRate);
  } else {
    state.counters["of_peak"] = benchmark::Counter(flops / peak, benchmark::Counter::kIsRate);
  }
}

/// The product of a pass in double, weights read row by row.
void run_double_product(benchmark::State& state, Isa isa, DType dtype, int64_t m, int64_t n,
                        int64_t k, int threads) {
  const Weights weights(dtype, true, n, k, 0);
  const TensorView view(dtype, {n, k}, weights.source.data());
  const std::vector<float> narrow = random_floats(m * k);
  const std::vector<double> x(narrow.begin(), narrow.end());
  std::vector<double> y(static_cast<size_t>(m * n));
  const ChainOrder order = double_chain_order(k);
  const AlignedBuffer packed(chain_input_bytes<double>(m, order));
  const size_t each = (chain_scratch_bytes<double>(k, order) + 63) / 64 * 64;
  const AlignedBuffer scratch(each * static_cast<size_t>(threads));
  for (auto _ : state) {
    ThreadPool::shared().run(threads, [&](const Worker& worker) {
      pack_chain_input<double>(isa, {.x = x.data(), .rows = m, .columns = k, .order = &order},
                               packed.data(), worker);
      worker.sync();
      const ChainProduct<double> product{
          .rows = m,
          .columns = k,
          .outputs = n,
          .order = &order,
          .packed = packed.data(),
          .weight = [&](int64_t row, double* out) { read_row(view, row, out); },
          .finish =
              [&](int64_t row, int64_t first, std::span<const double> sums) {
                std::copy(sums.begin(), sums.end(), y.begin() + (row * n + first));
              },
          .scratch = scratch.data() + each * static_cast<size_t>(worker.index)};
      chain_product<double>(isa, product, worker);
    });
    benchmark::DoNotOptimize(y.data());
  }
  const double flops =
      2.0 * static_cast<double>(m * n * k) * static_cast<double>(state.iterations()) / 1e9;
  state.counters["GFLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsRate);
  state.counters["of_peak"] =
      benchmark::Counter(flops / limits(threads).f64_gflops, benchmark::Counter::kIsRate);
}

/// `keys` keys in the cache, the last `rows` of them asked; causal.
void run_attention(benchmark::State& state, Isa isa, int64_t rows, int64_t keys, int64_t heads,
                   int64_t kv_heads, int64_t width, int threads) {
  const CpuKernels& kernels = cpu_kernels(isa);
  const int64_t blocks = (keys + kKeyBlock - 1) / kKeyBlock;
  const std::vector<float> k = random_floats(blocks * kKeyBlock * kv_heads * width), v = k;
  const std::vector<float> q = random_floats(rows * heads * width);
  std::vector<float> y(q.size());
  std::vector<KeyRange> ranges;
  double pairs = 0;
  for (int64_t r = 0; r < rows; ++r) {
    ranges.push_back({0, keys - rows + r + 1});
    pairs += static_cast<double>(ranges.back().end);
  }
  const AttentionSequence sequence{0, rows, k.data(), v.data()};
  AttentionArgs args{.heads = heads,
                     .kv_heads = kv_heads,
                     .head_width = width,
                     .scale = 0.125f,
                     .sequences = {&sequence, 1},
                     .ranges = ranges.data(),
                     .q = q.data(),
                     .q_stride = heads * width,
                     .out = y.data(),
                     .out_stride = heads * width};
  const AlignedBuffer scratch(kernels.attention_scratch_bytes(args, threads));
  args.scratch = scratch.data();
  for (auto _ : state) {
    ThreadPool::shared().run(threads,
                             [&](const Worker& worker) { kernels.attention(args, worker); });
    benchmark::DoNotOptimize(y.data());
  }
  const double flops = 4 * pairs * static_cast<double>(heads * width) *
                       static_cast<double>(state.iterations()) / 1e9;
  state.counters["GFLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsRate);
  state.counters["of_peak"] =
      benchmark::Counter(flops / limits(threads).f32_gflops, benchmark::Counter::kIsRate);
}

void run_pack(benchmark::State& state, Isa isa, InputPrecision precision, int64_t m, int64_t k) {
  const CpuKernels& kernels = cpu_kernels(isa);
  const std::vector<float> x = random_floats(m * k), w = random_floats(k);
  const AlignedBuffer packed(kernels.packed_input_bytes(m, k, precision));
  const NormPrologue norm{.eps = 1e-5f, .weight = w.data()};
  const GemmInput input{.x = x.data(), .stride = k, .rows = m, .columns = k, .norm = &norm};
  for (auto _ : state) {
    kernels.pack_input(input, precision, packed.data(), Worker::alone());
    benchmark::DoNotOptimize(packed.data());
  }
  state.counters["ns/element"] =
      benchmark::Counter(static_cast<double>(m * k) * static_cast<double>(state.iterations()) / 1e9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void run_activation(benchmark::State& state, Isa isa, Activation kind) {
  const std::vector<float> x = random_floats(8192);
  std::vector<float> y(x.size());
  for (auto _ : state) {
    cpu_kernels(isa).activation(kind, x.data(), y.data(), 8192, Worker::alone());
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["ns/element"] =
      benchmark::Counter(8192.0 * static_cast<double>(state.iterations()) / 1e9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void register_all() {
  // One thread is timed by its processor time, which other programs disturb less.
  const auto add = [](const std::string& name, int threads, auto body) {
    benchmark::internal::Benchmark* b = benchmark::RegisterBenchmark(name.c_str(), body);
    if (threads > 1) b->UseRealTime();
  };
  const int most = default_thread_count();
  struct Shape {
    int64_t n, k;
  };
  const Shape shapes[] = {{960, 576}, {3072, 576}, {576, 576}, {576, 1536}, {2048, 2048}};
  struct Kind {
    DType dtype;
    bool plain;
    InputPrecision precision;
  };
  const Kind kinds[] = {
      {DType::kF32, false, InputPrecision::kF32},   {DType::kF32, true, InputPrecision::kF32},
      {DType::kBF16, false, InputPrecision::kF32},  {DType::kQ4_1, false, InputPrecision::kF32},
      {DType::kQ4_0, false, InputPrecision::kInt8}, {DType::kQ4_1, false, InputPrecision::kInt8},
      {DType::kQ8_0, false, InputPrecision::kInt8}, {DType::kQ6_K, true, InputPrecision::kF32}};
  for (const Isa isa : available_isas()) {
    for (const int threads : {1, most}) {
      const std::string tail = "/" + std::string(name(isa)) + "/" + std::to_string(threads);
      for (const Kind& kind : kinds) {
        for (const int64_t m : {1, 4, 512}) {
          for (const Shape& s : shapes) {
            if (s.k % info(kind.dtype).block_elements != 0) continue;
            add("gemm/" + std::string(name(kind.dtype)) + (kind.plain ? "_plain" : "") +
                    (kind.precision == InputPrecision::kInt8 ? "_int8" : "") + "/M" +
                    std::to_string(m) + "/N" + std::to_string(s.n) + "/K" + std::to_string(s.k) +
                    tail,
                threads, [=](benchmark::State& state) {
                  run_products(state, isa, kind.dtype, kind.plain, kind.precision, m, s.n, s.k,
                               threads, m > 8);
                });
          }
        }
      }
      for (const int64_t m : {1, 64, 512}) {
        for (const Shape& s : shapes) {
          add("gemm_double/f32/M" + std::to_string(m) + "/N" + std::to_string(s.n) + "/K" +
                  std::to_string(s.k) + tail,
              threads, [=](benchmark::State& state) {
                run_double_product(state, isa, DType::kF32, m, s.n, s.k, threads);
              });
        }
      }
      add("attention/prefill512" + tail, threads,
          [=](benchmark::State& state) { run_attention(state, isa, 512, 512, 9, 3, 64, threads); });
      add("attention/prefill2048" + tail, threads, [=](benchmark::State& state) {
        run_attention(state, isa, 2048, 2048, 9, 3, 64, threads);
      });
      for (const int64_t keys : {128, 512, 4096}) {
        add("attention/decode" + std::to_string(keys) + tail, threads,
            [=](benchmark::State& state) {
              run_attention(state, isa, 1, keys, 9, 3, 64, threads);
            });
      }
    }
    const std::string tail = "/" + std::string(name(isa));
    for (const int64_t m : {1, 512}) {
      add("pack/f32/M" + std::to_string(m) + tail, 1,
          [=](benchmark::State& state) { run_pack(state, isa, InputPrecision::kF32, m, 576); });
      add("pack/int8/M" + std::to_string(m) + tail, 1,
          [=](benchmark::State& state) { run_pack(state, isa, InputPrecision::kInt8, m, 576); });
    }
    const std::pair<const char*, Activation> curves[] = {{"gelu_erf", Activation::kGeluErf},
                                                         {"gelu_tanh", Activation::kGeluTanh},
                                                         {"silu", Activation::kSilu}};
    for (const auto& [curve, kind] : curves) {
      add("activation/" + std::string(curve) + tail, 1,
          [=, k = kind](benchmark::State& state) { run_activation(state, isa, k); });
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
