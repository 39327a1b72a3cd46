#include <algorithm>
#include <chrono>
#include <functional>

#include "kernels/cpu/micro.h"
#include "kernels/cpu_kernels.h"

namespace mainstem::kernels {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Best of some runs: what the machine can do when nobody else uses it.
template <typename Run>
double best_rate(int threads, int runs, const Run& run) {
  double best = 0;
  for (int i = 0; i < runs; ++i) {
    std::vector<double> amounts(static_cast<size_t>(threads));
    double begin = 0;
    ThreadPool::shared().run(threads, [&](const Worker& worker) {
      worker.sync();
      if (worker.index == 0) begin = seconds();
      amounts[static_cast<size_t>(worker.index)] = run(worker.index);
    });
    double amount = 0;
    for (const double a : amounts) amount += a;
    best = std::max(best, amount / (seconds() - begin) / 1e9);
  }
  return best;
}

}  // namespace

MachineLimits measure_limits(int threads) {
  threads = threads > 0 ? threads : default_thread_count();
  const LimitKernels& kernels = micro_kernels(active_isa()).limits;
  MachineLimits limits;

  // Rounds that take about 2 ms: short enough to find a moment of quiet.
  const auto rounds_for = [](double (*peak)(int64_t)) {
    int64_t rounds = 100;
    while (true) {
      const double begin = seconds();
      peak(rounds);
      if (seconds() - begin > 0.002) return rounds;
      rounds *= 2;
    }
  };
  const auto peak_rate = [&](double (*peak)(int64_t)) {
    const int64_t rounds = rounds_for(peak);
    return best_rate(threads, 120, [&](int) { return peak(rounds); });
  };
  limits.f32_gflops = peak_rate(kernels.f32);
  limits.f64_gflops = peak_rate(kernels.f64);
  if (kernels.int8 != nullptr) limits.int8_gops = peak_rate(kernels.int8);

  constexpr int64_t kBytes = int64_t{256} << 20;
  const AlignedBuffer memory(static_cast<size_t>(kBytes), true);
  const int64_t part = kBytes / threads / 256 * 256;
  std::vector<uint64_t> seen(static_cast<size_t>(threads));
  limits.read_gb_s = best_rate(threads, 40, [&](int index) {
    seen[static_cast<size_t>(index)] = kernels.read(memory.data() + index * part, part);
    return static_cast<double>(part);
  });
  return limits;
}

}  // namespace mainstem::kernels
