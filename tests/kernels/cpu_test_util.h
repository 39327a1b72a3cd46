#pragma once

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/bounds.h"
#include "kernels/cpu_kernels.h"
#include "mainstem/tensor.h"
#include "mainstem/threads.h"

namespace mainstem::test {

/// Doubles of the same values.
inline std::vector<double> widen(const std::vector<float>& x) { return {x.begin(), x.end()}; }

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  float normal() { return static_cast<float>(normal_(engine_)); }
  float uniform(float lo, float hi) {
    return std::uniform_real_distribution<float>(lo, hi)(engine_);
  }
  uint32_t bits() { return static_cast<uint32_t>(engine_()); }
  std::vector<float> normals(int64_t count) {
    std::vector<float> x(static_cast<size_t>(count));
    for (float& v : x) v = normal();
    return x;
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<double> normal_;
};

/// A random matrix in any weight type, and its values in double.
struct RandomMatrix {
  static constexpr float kLargestMinimum = 0.5f;  ///< |m| of q4_1
  RandomMatrix(Random& random, DType dtype, int64_t rows, int64_t columns) {
    const DTypeInfo& type = info(dtype);
    const int64_t blocks = rows * (columns / type.block_elements);
    bytes = AlignedBuffer(static_cast<size_t>(blocks * type.block_bytes) + 1, true);
    std::byte* p = bytes.data();
    for (int64_t b = 0; b < blocks; ++b, p += type.block_bytes) fill(random, dtype, p);
    view = TensorView(dtype, {rows, columns}, bytes.data());
    values.resize(static_cast<size_t>(rows * columns));
    for (int64_t n = 0; n < rows; ++n) read_row(view, n, values.data() + n * columns);
  }

  AlignedBuffer bytes;
  TensorView view;
  std::vector<double> values;

 private:
  static void put_f16(std::byte* p, float x) {
    const uint16_t h = f32_to_f16(x);
    std::memcpy(p, &h, 2);
  }
  static void fill(Random& random, DType dtype, std::byte* p) {
    const DTypeInfo& type = info(dtype);
    if (type.is_quantised) {
      for (int i = 0; i < type.block_bytes; ++i) p[i] = static_cast<std::byte>(random.bits());
      const float d = random.uniform(-0.05f, 0.05f),
                  m = random.uniform(-kLargestMinimum, kLargestMinimum);
      switch (dtype) {
        case DType::kQ4_1:
        case DType::kQ5_1:
          put_f16(p + 2, m);
          [[fallthrough]];
        case DType::kQ4_0:
        case DType::kQ5_0:
        case DType::kQ8_0:
          put_f16(p, d);
          return;
        case DType::kQ4_K:
        case DType::kQ5_K:
          put_f16(p, d / 16), put_f16(p + 2, m / 64);
          return;
        case DType::kQ2_K:
          put_f16(p + 80, d), put_f16(p + 82, m / 4);
          return;
        case DType::kQ3_K:
          put_f16(p + 108, d / 16);
          return;
        case DType::kQ6_K:
          put_f16(p + 208, d / 64);
          return;
        default:
          return;
      }
    }
    const float x = random.normal();
    if (dtype == DType::kF32) std::memcpy(p, &x, 4);
    if (dtype == DType::kF16) put_f16(p, x);
    if (dtype == DType::kBF16) {
      const uint16_t h = f32_to_bf16(x);
      std::memcpy(p, &h, 2);
    }
    if (dtype == DType::kF64) {
      const double wide = static_cast<double>(x);  // a float32 value: kernels lose nothing
      std::memcpy(p, &wide, 8);
    }
  }
};

/// A matrix packed in its own format, or left plain.
struct Packed {
  Packed(const RandomMatrix& source, bool plain, std::span<const int64_t> row_order = {}) {
    const kernels::PackFormat format =
        plain ? kernels::PackFormat::kPlain : kernels::pack_format_for(source.view.dtype());
    if (format == kernels::PackFormat::kPlain) {
      matrix = {.format = format,
                .dtype = source.view.dtype(),
                .rows = source.view.rows(),
                .columns = source.view.columns(),
                .data = source.view.data(),
                .stride_bytes = static_cast<size_t>(source.view.row_bytes())};
    } else {
      const int64_t rows =
          row_order.empty() ? source.view.rows() : static_cast<int64_t>(row_order.size());
      bytes = AlignedBuffer(kernels::packed_bytes(format, rows, source.view.columns()));
      matrix = kernels::pack_weights(source.view, format, row_order, bytes.data(), Worker::alone());
    }
  }
  AlignedBuffer bytes;
  kernels::WeightMatrix matrix;
};

/// pack_input, then gemm, with so many workers.
inline void run_gemm(const kernels::CpuKernels& kernels, const kernels::GemmInput& input,
                     kernels::InputPrecision precision, std::span<const kernels::GemmPart> parts,
                     int workers) {
  const AlignedBuffer packed(kernels.packed_input_bytes(input.rows, input.columns, precision));
  const size_t each = (kernels.gemm_scratch_bytes(input.rows, input.columns) + 63) / 64 * 64;
  const AlignedBuffer scratch(each * static_cast<size_t>(workers));
  ThreadPool::shared().run(workers, [&](const Worker& worker) {
    kernels.pack_input(input, precision, packed.data(), worker);
    worker.sync();
    kernels.gemm(packed.data(), input.rows, input.columns, precision, parts,
                 scratch.data() + each * static_cast<size_t>(worker.index), worker);
  });
}

}  // namespace mainstem::test
