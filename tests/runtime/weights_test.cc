// Weights in other layouts and types mean the same; those that do not fit are refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "mainstem/error.h"
#include "support/bounds.h"
#include "support/compare.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

const Compute kAll[] = {Compute::kF64, Compute::kF32Reference, Compute::kF32};

std::vector<double> output_of(const Program& program, const WeightSources& sources,
                              const SequenceInput& input, Compute compute) {
  const auto bound = std::make_shared<BoundProgram>(program, sources);
  Session session(bound, {.compute = compute, .threads = 1, .sites = {}});
  session.add_sequence();
  return session.forward_all({&input, 1});
}

class Layouts : public ::testing::TestWithParam<DType> {};

TEST_P(Layouts, RowOrderAndTransposedMeanTheSame) {
  Dice dice(4);
  ModelSpec spec = small_decoder();
  spec.stack.positions = PositionKind::kLearned;
  spec.stack.position_rows = 20;
  spec.head.tied = true;
  for (BlockSpec& block : spec.stack.blocks) block.attention.q_bias = true;
  const TestModel model = make_model(spec, 3, GetParam());
  const SequenceInput input = random_input(model, dice, 6);

  std::vector<Tensor> kept;
  WeightSources permuted = model.sources;
  WeightSources transposed = model.sources;
  for (const WeightInfo& info : model.program().weights) {
    const TensorView view = model.sources.at(info.name).tensor;
    const bool is_vector = info.kind == WeightKind::kVector;
    const int64_t rows = is_vector ? view.count() : view.rows();
    const int64_t columns = view.count() / rows;
    const auto bytes = static_cast<size_t>(view.bytes() / view.count());
    std::vector<int64_t> order(static_cast<size_t>(rows));
    for (int64_t n = 0; n < rows; ++n) order[static_cast<size_t>(n)] = n;
    for (int64_t n = rows - 1; n > 0; --n) {
      std::swap(order[static_cast<size_t>(n)], order[static_cast<size_t>(dice.below(n + 1))]);
    }
    Tensor shuffled(view.dtype(), view.shape());
    Tensor turned(view.dtype(), {columns, rows});
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t c = 0; c < columns; ++c) {
        const std::byte* from = view.data() + static_cast<size_t>(n * columns + c) * bytes;
        const int64_t there = order[static_cast<size_t>(n)] * columns + c;
        std::copy_n(from, bytes, shuffled.data<std::byte>() + static_cast<size_t>(there) * bytes);
        std::copy_n(from, bytes,
                    turned.data<std::byte>() + static_cast<size_t>(c * rows + n) * bytes);
      }
    }
    permuted[info.name] = {.tensor = shuffled.view(), .row_order = order, .keep_alive = nullptr};
    if (!is_vector) {
      transposed[info.name] = {
          .tensor = turned.view(), .row_order = {}, .transposed = true, .keep_alive = nullptr};
    }
    kept.push_back(shuffled);
    kept.push_back(turned);
  }
  for (Compute compute : kAll) {
    const auto want = output_of(model.program(), model.sources, input, compute);
    EXPECT_TRUE(same_bits(output_of(model.program(), permuted, input, compute), want));
    EXPECT_TRUE(same_bits(output_of(model.program(), transposed, input, compute), want));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Layouts,
                         ::testing::Values(DType::kF32, DType::kF64, DType::kF16, DType::kBF16),
                         [](const auto& test) { return std::string(name(test.param)); });

/// Row ranges of a fused tensor: q, k, v and gate, value as some files have them.
TEST(Layouts, RowRangesOfAFusedTensorMeanTheSame) {
  const TestModel model = make_model(small_decoder(), 3);
  Dice dice(5);
  const SequenceInput input = random_input(model, dice, 6);
  WeightSources fused = model.sources;
  std::vector<Tensor> kept;
  const std::vector<std::vector<std::string>> groups{
      {"blocks.0.q.weight", "blocks.0.k.weight", "blocks.0.v.weight"},
      {"blocks.1.mlp_gate.weight", "blocks.1.mlp_value.weight"}};
  for (const auto& names : groups) {
    std::vector<float> all;
    for (const std::string& name : names) {
      const auto part = to_f32(model.sources.at(name).tensor);
      all.insert(all.end(), part.begin(), part.end());
    }
    kept.push_back(Tensor::from_f32({static_cast<int64_t>(all.size()) / 22, 22}, all));
    int64_t row = 0;
    for (const std::string& name : names) {
      const int64_t rows = model.sources.at(name).tensor.rows();
      fused[name].tensor = kept.back().view().row_range(row, row + rows);
      row += rows;
    }
  }
  for (Compute compute : kAll) {
    EXPECT_TRUE(same_bits(output_of(model.program(), fused, input, compute),
                          output_of(model.program(), model.sources, input, compute)));
  }
}

/// Blocks of random bytes, each byte small enough that scales stay finite and below one.
Tensor random_blocks(Dice& dice, DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.view().bytes(); ++i) {
    const int64_t sign = dice.chance(0.5) ? 0x80 : 0;
    tensor.data<uint8_t>()[i] = static_cast<uint8_t>(0x18 + dice.below(16) + sign);
  }
  return tensor;
}

class Quantised : public ::testing::TestWithParam<DType> {};

TEST_P(Quantised, MatricesRunExactlyInFloat32AndNearlyWithRoundedInputs) {
  BlockSpec block = small_decoder().stack.blocks[0];
  block.width = 256;
  block.attention.heads = 4;
  block.attention.head_width = 64;
  block.mlp.hidden = 512;
  TestModel model = make_block(block, 6);
  Dice dice(7);
  for (const WeightInfo& info : model.program().weights) {
    if (info.kind != WeightKind::kMatrix) continue;
    Tensor tensor = random_blocks(dice, GetParam(), info.shape);
    model.sources[info.name].tensor = tensor.view();
    const std::vector<float> values = to_f32(tensor.view());
    model.oracle_weights[info.name].assign(values.begin(), values.end());
    model.storage[info.name] = tensor;
  }
  model.bound = std::make_shared<BoundProgram>(build_block_program(block), model.sources);
  for (int64_t length : {1, 7}) {
    const SequenceInput input = random_input(model, dice, length);
    const oracle::Trace want = run_oracle(model, {input});
    const auto& post = want.at("blocks.0.resid_post").data;
    const auto run = [&](Compute compute) {
      return output_of(model.program(), model.sources, input, compute);
    };
    EXPECT_TRUE(close(run(Compute::kF64), post,
                      bounds::end_to_end(std::numeric_limits<double>::epsilon(), 1)));
    EXPECT_TRUE(close(run(Compute::kF32), post,
                      bounds::end_to_end(std::numeric_limits<float>::epsilon(), 1)));
    EXPECT_TRUE(close(run(Compute::kFast), post, bounds::rounded_inputs(1)));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Quantised,
                         ::testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                           DType::kQ8_0, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,
                                           DType::kQ5_K, DType::kQ6_K),
                         [](const auto& test) { return std::string(name(test.param)); });

/// Heads wider than the epilogues of products take.
TEST(Shapes, VeryWideHeadsRunToo) {
  BlockSpec block = small_decoder().stack.blocks[0];
  block.attention.heads = 2;
  block.attention.kv_heads = 1;
  block.attention.head_width = 544;
  block.attention.rotary->width = 544;
  const TestModel model = make_block(block, 6);
  Dice dice(7);
  const SequenceInput input = random_input(model, dice, 6);
  const oracle::Trace want = run_oracle(model, {input});
  EXPECT_TRUE(close(output_of(model.program(), model.sources, input, Compute::kF32),
                    want.at("blocks.0.resid_post").data,
                    bounds::end_to_end(std::numeric_limits<float>::epsilon(), 1)));
}

std::string refusal(const TestModel& model, const WeightSources& sources,
                    ErrorCode code = ErrorCode::kBadInput) {
  try {
    const BoundProgram bound(model.program(), sources);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(Refused, MissingWeightsAreAllNamed) {
  const TestModel model = make_model(small_decoder(), 3);
  WeightSources sources = model.sources;
  sources.erase("blocks.1.k.weight");
  sources.erase("final_norm.weight");
  const std::string text = refusal(model, sources);
  EXPECT_NE(text.find("blocks.1.k.weight"), std::string::npos) << text;
  EXPECT_NE(text.find("final_norm.weight"), std::string::npos) << text;
  EXPECT_NE(refusal(model, {}).find("more"), std::string::npos);
}

TEST(Refused, ShapesAndTypesThatDoNotFit) {
  const TestModel model = make_model(small_decoder(), 3);
  struct Row {
    std::string weight;
    Tensor tensor;
  };
  const std::vector<Row> rows{{"blocks.0.q.weight", Tensor(DType::kF32, {22, 60})},
                              {"blocks.0.q.weight", Tensor(DType::kF32, {60, 21})},
                              {"blocks.0.q.weight", Tensor(DType::kF32, {61, 22})},
                              {"blocks.0.q.weight", Tensor(DType::kF32, {1320})},
                              {"blocks.0.q.weight", Tensor(DType::kI32, {60, 22})},
                              {"blocks.0.attn_norm.weight", Tensor(DType::kF32, {21})},
                              {"blocks.0.attn_norm.weight", Tensor(DType::kI64, {22})},
                              {"token_embed.weight", Tensor(DType::kF32, {30, 22})},
                              {"token_embed.weight", Tensor(DType::kBool, {31, 22})}};
  for (const Row& row : rows) {
    WeightSources sources = model.sources;
    sources[row.weight].tensor = row.tensor.view();
    const std::string text = refusal(model, sources);
    EXPECT_NE(text.find(row.weight), std::string::npos) << text;
    EXPECT_NE(text.find("expected"), std::string::npos) << text;
  }
  WeightSources sources = model.sources;
  sources["blocks.0.q.weight"].transposed = true;
  EXPECT_NE(refusal(model, sources).find("blocks.0.q.weight"), std::string::npos);
}

TEST(Refused, RowOrdersThatNameNoRow) {
  const TestModel model = make_model(small_decoder(), 3);
  for (const char* weight : {"blocks.0.k.weight", "blocks.0.attn_norm.weight"}) {
    const int64_t rows = std::string(weight).find("norm") == std::string::npos ? 20 : 22;
    std::vector<int64_t> order(static_cast<size_t>(rows), 0);
    for (const auto& edit : std::vector<std::function<void(std::vector<int64_t>&)>>{
             [](auto& list) { list.pop_back(); }, [](auto& list) { list.push_back(0); },
             [](auto& list) { list[3] = -1; }, [&](auto& list) { list[3] = rows; }}) {
      WeightSources sources = model.sources;
      sources[weight].row_order = order;
      edit(sources[weight].row_order);
      EXPECT_NE(refusal(model, sources, ErrorCode::kUsage).find(weight), std::string::npos);
    }
  }
}

TEST(WeightBytes, CountWhatIsStored) {
  const TestModel wide = make_model(small_decoder(), 3);
  const TestModel narrow = make_model(small_decoder(), 3, DType::kBF16);
  const int64_t parameters = count(wide.program(), 0).parameters;
  EXPECT_EQ(wide.bound->weight_bytes(), 4 * parameters);
  EXPECT_EQ(narrow.bound->weight_bytes(), 2 * parameters);
}

}  // namespace
}  // namespace mainstem::testing
