// What happens to a tile of a product before it is stored: against the same steps done apart.

#include <gtest/gtest.h>

#include "kernels/cpu_test_util.h"

namespace mainstem::kernels {
namespace {

using test::Packed;
using test::Random;
using test::RandomMatrix;
using test::run_gemm;

class Fixture {
 public:
  Fixture(Isa isa, DType dtype, InputPrecision precision, int64_t rows, int64_t outputs,
          int64_t columns, int workers)
      : kernels(cpu_kernels(isa)),
        random(21),
        w(random, dtype, outputs, columns),
        v(random, dtype, outputs, columns),
        packed_w(w, false),
        packed_v(v, false),
        x(random.normals(rows * columns)),
        m(rows),
        n(outputs),
        k(columns),
        precision_(precision),
        workers_(workers) {}

  std::vector<float> run(GemmPart part, const NormPrologue* norm = nullptr) {
    std::vector<float> y(static_cast<size_t>(m * n));
    part.weight = &packed_w.matrix;
    part.rows = n;
    if (part.output.row_pointers == nullptr) part.output = {.y = y.data(), .stride = n};
    run_gemm(kernels, {.x = x.data(), .stride = k, .rows = m, .columns = k, .norm = norm},
             precision_, {&part, 1}, workers_);
    return y;
  }
  std::vector<float> value() {
    std::vector<float> y(static_cast<size_t>(m * n));
    const GemmPart part{
        .weight = &packed_v.matrix, .rows = n, .output = {.y = y.data(), .stride = n}};
    run_gemm(kernels, {.x = x.data(), .stride = k, .rows = m, .columns = k}, precision_, {&part, 1},
             workers_);
    return y;
  }

  const CpuKernels& kernels;
  Random random;
  RandomMatrix w, v;
  Packed packed_w, packed_v;
  std::vector<float> x;
  int64_t m, n, k;

 private:
  InputPrecision precision_;
  int workers_;
};

struct Shape {
  int64_t m, n, k;
};
const Shape kShapes[] = {{1, 33, 64}, {7, 17, 32}, {29, 192, 96}};

template <typename Body>
void for_fixtures(Body body) {
  for (const Isa isa : available_isas()) {
    for (const Shape& s : kShapes) {
      for (const int workers : {1, 2, 3}) {
        for (const bool int8 : {false, true}) {
          Fixture f(isa, int8 ? DType::kQ4_1 : DType::kF32,
                    int8 ? InputPrecision::kInt8 : InputPrecision::kF32, s.m, s.n, s.k, workers);
          SCOPED_TRACE(std::string(name(isa)) + (int8 ? " int8" : "") + " M" + std::to_string(s.m) +
                       " workers " + std::to_string(workers));
          body(f);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(CpuEpilogue, BiasScaleCapActivationAddInOrder) {
  for_fixtures([](Fixture& f) {
    const std::vector<float> bias = f.random.normals(f.n), rows = f.random.normals(f.m * (f.n + 3));
    const EpilogueOp ops[] = {
        {.kind = EpilogueOp::Kind::kBias, .vector = bias.data()},
        {.kind = EpilogueOp::Kind::kScale, .scalar = 0.25f},
        {.kind = EpilogueOp::Kind::kActivation, .activation = Activation::kGeluErf},
        {.kind = EpilogueOp::Kind::kAddRows, .rows = rows.data(), .stride = f.n + 3}};
    const std::vector<float> fused = f.run({.epilogue = ops});
    std::vector<float> apart = f.run({});
    for (int64_t r = 0; r < f.m; ++r) {
      float* y = apart.data() + r * f.n;
      const Worker alone = Worker::alone();
      f.kernels.add(y, bias.data(), y, f.n, alone);
      f.kernels.scale(0.25f, y, y, f.n, alone);
      f.kernels.activation(Activation::kGeluErf, y, y, f.n, alone);
      f.kernels.add(y, rows.data() + r * (f.n + 3), y, f.n, alone);
    }
    ASSERT_EQ(fused, apart);
  });
}

TEST(CpuEpilogue, SoftCap) {
  for_fixtures([](Fixture& f) {
    const EpilogueOp op{.kind = EpilogueOp::Kind::kSoftCap, .scalar = 2.5f};
    const std::vector<float> capped = f.run({.epilogue = {&op, 1}}), plain = f.run({});
    for (size_t i = 0; i < plain.size(); ++i) {
      const double t = static_cast<double>(plain[i]) / 2.5;
      const double y = 2.5 * std::tanh(t);
      ASSERT_TRUE(std::fabs(static_cast<double>(capped[i]) - y) <= test::function_bound(y, 5))
          << plain[i];
    }
  });
}

TEST(CpuEpilogue, Gate) {
  for_fixtures([](Fixture& f) {
    const std::vector<float> bias = f.random.normals(f.n), value_bias = f.random.normals(f.n);
    const EpilogueOp ops[] = {{.kind = EpilogueOp::Kind::kBias, .vector = bias.data()},
                              {.kind = EpilogueOp::Kind::kGate,
                               .activation = Activation::kSilu,
                               .value_bias = value_bias.data()}};
    const std::vector<float> fused = f.run({.value = &f.packed_v.matrix, .epilogue = ops});
    std::vector<float> gate = f.run({}), value = f.value();
    for (int64_t r = 0; r < f.m; ++r) {
      float* g = gate.data() + r * f.n;
      float* v = value.data() + r * f.n;
      const Worker alone = Worker::alone();
      f.kernels.add(g, bias.data(), g, f.n, alone);
      f.kernels.activation(Activation::kSilu, g, g, f.n, alone);
      f.kernels.add(v, value_bias.data(), v, f.n, alone);
      f.kernels.multiply(g, v, g, f.n, alone);
    }
    ASSERT_EQ(fused, gate);
  });
}

TEST(CpuEpilogue, GateFromTwoHalvesAtOddRows) {
  for (const Isa isa : available_isas()) {
    Random random(8);
    const int64_t k = 32, half = 37, m = 8;
    const RandomMatrix w(random, DType::kF32, 2 * half, k);
    const Packed packed(w, false);
    const std::vector<float> x = random.normals(m * k);
    std::vector<float> both(static_cast<size_t>(m * 2 * half)),
        fused(static_cast<size_t>(m * half));
    const GemmInput input{.x = x.data(), .stride = k, .rows = m, .columns = k};
    const GemmPart plain{.weight = &packed.matrix,
                         .rows = 2 * half,
                         .output = {.y = both.data(), .stride = 2 * half}};
    run_gemm(cpu_kernels(isa), input, InputPrecision::kF32, {&plain, 1}, 1);
    const EpilogueOp op{.kind = EpilogueOp::Kind::kGate, .activation = Activation::kRelu};
    const GemmPart part{.weight = &packed.matrix,
                        .value = &packed.matrix,
                        .row_begin = 0,
                        .value_row_begin = half,
                        .rows = half,
                        .epilogue = {&op, 1},
                        .output = {.y = fused.data(), .stride = half}};
    run_gemm(cpu_kernels(isa), input, InputPrecision::kF32, {&part, 1}, 2);
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t n = 0; n < half; ++n) {
        const float gate = both[static_cast<size_t>(r * 2 * half + n)];
        const float value = both[static_cast<size_t>(r * 2 * half + half + n)];
        ASSERT_EQ(fused[static_cast<size_t>(r * half + n)], std::max(gate, 0.0f) * value)
            << name(isa) << " " << r << " " << n;
      }
    }
  }
}

TEST(CpuEpilogue, RotaryOfWholeHeads) {
  for (const int64_t head : {16, 32, 48, 64, 96, 512}) {
    for (const bool interleaved : {false, true}) {
      for (const Isa isa : available_isas()) {
        for (const int workers : {1, 2, 3}) {
          const int64_t heads = head == 512 ? 2 : 5, m = 14, n = heads * head;
          Fixture f(isa, DType::kF32, InputPrecision::kF32, m, n, 40, workers);
          const int64_t width = head / 2;
          const std::vector<float> cosine = f.random.normals(m * width / 2);
          const std::vector<float> sine = f.random.normals(m * width / 2);
          const RotaryTable table{cosine.data(), sine.data(), width, interleaved};
          const EpilogueOp op{
              .kind = EpilogueOp::Kind::kRotary, .rotary = &table, .head_width = head};
          const std::vector<float> fused = f.run({.epilogue = {&op, 1}});
          std::vector<float> apart = f.run({});
          f.kernels.rotary(table, m, heads, head, apart.data(), n, apart.data(), n,
                           Worker::alone());
          ASSERT_EQ(fused, apart) << name(isa) << " E" << head << " workers " << workers;
        }
      }
    }
  }
}

TEST(CpuEpilogue, NormPrologue) {
  for_fixtures([](Fixture& f) {
    const std::vector<float> weight = f.random.normals(f.k);
    const NormPrologue norm{
        .layer_norm = true, .eps = 1e-5f, .weight = weight.data(), .bias = weight.data()};
    const std::vector<float> fused = f.run({}, &norm);
    std::vector<float> normed(f.x.size());
    f.kernels.norm({.x = f.x.data(), .stride = f.k, .rows = f.m, .columns = f.k, .norm = &norm},
                   normed.data(), f.k, Worker::alone());
    f.x = normed;
    ASSERT_EQ(fused, f.run({}));
  });
}

TEST(CpuEpilogue, StoresIntoCacheBlocks) {
  for (const int64_t head : {16, 24, 5}) {
    for (const int workers : {1, 2, 3}) {
      for (const Isa isa : available_isas()) {
        const int64_t heads = 3, m = 21, n = heads * head;
        Fixture f(isa, DType::kF32, InputPrecision::kF32, m, n, 33, workers);
        const std::vector<float> plain = f.run({});
        // Position of row r: 5 + r, blocks of 16.
        const int64_t block = heads * head * kKeyBlock;
        std::vector<float> keys(static_cast<size_t>(2 * block), 0.0f), values = keys;
        std::vector<float*> key_rows, value_rows;
        for (int64_t r = 0; r < m; ++r) {
          const int64_t s = 5 + r;
          key_rows.push_back(keys.data() + s / 16 * block + s % 16);
          value_rows.push_back(values.data() + s / 16 * block + s % 16 * head);
        }
        f.run({.output = {.row_pointers = key_rows.data(),
                          .head_width = head,
                          .head_stride = head * kKeyBlock,
                          .element_stride = kKeyBlock}});
        f.run({.output = {.row_pointers = value_rows.data(),
                          .head_width = head,
                          .head_stride = head * kKeyBlock,
                          .element_stride = 1}});
        for (int64_t r = 0; r < m; ++r) {
          for (int64_t c = 0; c < n; ++c) {
            const int64_t s = 5 + r, g = c / head, e = c % head;
            const float y = plain[static_cast<size_t>(r * n + c)];
            ASSERT_EQ(y,
                      keys[static_cast<size_t>(s / 16 * block + g * head * 16 + e * 16 + s % 16)]);
            ASSERT_EQ(
                y, values[static_cast<size_t>(s / 16 * block + g * head * 16 + s % 16 * head + e)]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mainstem::kernels
