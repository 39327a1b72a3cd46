// One table of kernels per instruction set.

#include "kernels/cpu/drivers.h"

namespace mainstem::kernels {
namespace {

constexpr int64_t kElementUnit = 64;  // elements of one cache line or more per worker

template <Isa isa>
const MicroKernels& micro() {
  static const MicroKernels* kernels = &micro_kernels(isa);
  return *kernels;
}

template <Isa isa>
constexpr CpuKernels table() {
  return CpuKernels{
      .isa = isa,
      .packed_input_bytes = packed_input_bytes,
      .pack_input =
          [](const GemmInput& input, InputPrecision precision, std::byte* packed,
             const Worker& worker) { pack_input(micro<isa>(), input, precision, packed, worker); },
      .gemm_scratch_bytes = gemm_scratch_bytes,
      .gemm =
          [](const std::byte* packed, int64_t rows, int64_t columns, InputPrecision precision,
             std::span<const GemmPart> parts, std::byte* scratch, const Worker& worker) {
            gemm(micro<isa>(), packed, rows, columns, precision, parts, scratch, worker);
          },
      .attention_scratch_bytes = attention_scratch_bytes,
      .attention = [](const AttentionArgs& args,
                      const Worker& worker) { attention(micro<isa>(), args, worker); },
      .norm = [](const GemmInput& input, float* y, int64_t y_stride,
                 const Worker& worker) { norm(micro<isa>(), input, y, y_stride, worker); },
      .activation =
          [](Activation kind, const float* x, float* y, int64_t count, const Worker& worker) {
            const auto mine = worker.slice(count, kElementUnit);
            micro<isa>().rows.activation(kind, x + mine.first, y + mine.first,
                                         mine.second - mine.first);
          },
      .multiply =
          [](const float* a, const float* b, float* y, int64_t count, const Worker& worker) {
            const auto mine = worker.slice(count, kElementUnit);
            micro<isa>().rows.multiply(a + mine.first, b + mine.first, y + mine.first,
                                       mine.second - mine.first);
          },
      .add =
          [](const float* a, const float* b, float* y, int64_t count, const Worker& worker) {
            const auto mine = worker.slice(count, kElementUnit);
            micro<isa>().rows.add(a + mine.first, b + mine.first, y + mine.first,
                                  mine.second - mine.first);
          },
      .scale =
          [](float factor, const float* x, float* y, int64_t count, const Worker& worker) {
            const auto mine = worker.slice(count, kElementUnit);
            micro<isa>().rows.scale(factor, x + mine.first, y + mine.first,
                                    mine.second - mine.first);
          },
      .rotary =
          [](const RotaryTable& angles, int64_t rows, int64_t heads, int64_t head_width,
             const float* x, int64_t x_stride, float* y, int64_t y_stride, const Worker& worker) {
            rotary(micro<isa>(), angles, rows, heads, head_width, x, x_stride, y, y_stride, worker);
          },
      .softmax = [](const float* x, float* y, int64_t rows, int64_t columns,
                    const Worker& worker) { softmax(micro<isa>(), x, y, rows, columns, worker); }};
}

constexpr CpuKernels kPortable = table<Isa::kPortable>();
#if defined(__x86_64__)
constexpr CpuKernels kAvx2 = table<Isa::kAvx2>();
constexpr CpuKernels kAvx512 = table<Isa::kAvx512>();
constexpr CpuKernels kAvx512Vnni = table<Isa::kAvx512Vnni>();
#endif

}  // namespace

const MicroKernels& micro_kernels(Isa isa) {
  static const MicroKernels kPortableMicro{portable::kFloatTile, portable::kInt8Tile,
                                           portable::kRows,      portable::kAttention,
                                           portable::kChain,     portable::kLimits};
#if defined(__x86_64__)
  static const MicroKernels kAvx2Micro{avx2::kFloatTile, avx2::kInt8Tile, avx2::kRows,
                                       avx2::kAttention, avx2::kChain,    avx2::kLimits};
  static const MicroKernels kAvx512Micro{avx512::kFloatTile, avx512::kInt8Tile, avx512::kRows,
                                         avx512::kAttention, avx512::kChain,    avx512::kLimits};
  // The dot product is all that VNNI adds.
  static const MicroKernels kAvx512VnniMicro{avx512::kFloatTile, avx512vnni::kInt8Tile,
                                             avx512::kRows,      avx512::kAttention,
                                             avx512::kChain,     avx512vnni::kLimits};
  switch (isa) {
    case Isa::kPortable:
      return kPortableMicro;
    case Isa::kAvx2:
      return kAvx2Micro;
    case Isa::kAvx512:
      return kAvx512Micro;
    case Isa::kAvx512Vnni:
      return kAvx512VnniMicro;
  }
#endif
  (void)isa;
  return kPortableMicro;
}

const CpuKernels& cpu_kernels(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kPortable:
      return kPortable;
    case Isa::kAvx2:
      return kAvx2;
    case Isa::kAvx512:
      return kAvx512;
    case Isa::kAvx512Vnni:
      return kAvx512Vnni;
  }
#endif
  (void)isa;
  return kPortable;
}

const CpuKernels& cpu_kernels() { return cpu_kernels(active_isa()); }

}  // namespace mainstem::kernels
