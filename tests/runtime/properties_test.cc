// Laws that hold whatever the numbers are.

#include <gtest/gtest.h>

#include <limits>

#include "support/bounds.h"
#include "support/compare.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

constexpr Compute kBoth[] = {Compute::kF64, Compute::kF32};

double tolerance(Compute compute, int64_t blocks) {
  return bounds::end_to_end(compute == Compute::kF64 ? std::numeric_limits<double>::epsilon()
                                                     : std::numeric_limits<float>::epsilon(),
                            blocks);
}

/// The same model with another spec: every weight the two have in common keeps its values.
TestModel with_weights_of(const TestModel& model, const ModelSpec& spec) {
  TestModel other = model;
  other.spec = spec;
  other.bound = std::make_shared<BoundProgram>(build_program(spec), other.sources);
  return other;
}

TEST(Properties, AWindowAsLongAsTheSequenceIsCausal) {
  ModelSpec causal = small_decoder();
  ModelSpec window = causal;
  for (BlockSpec& block : window.stack.blocks) {
    block.attention.mask = MaskKind::kWindow;
    block.attention.window = 11;
  }
  const TestModel model = make_model(causal, 1);
  Dice dice(2);
  const SequenceInput input = random_input(model, dice, 11);
  ModelSpec narrow = window;
  narrow.stack.blocks[0].attention.window = 10;
  for (Compute compute : kBoth) {
    const Traced want = trace_all(model, {input}, compute);
    const Traced got = trace_all(with_weights_of(model, window), {input}, compute);
    for (const std::string& site : want.order) {
      EXPECT_TRUE(same_bits(got.data.at(site), want.data.at(site))) << site;
    }
    const Traced cut = trace_all(with_weights_of(model, narrow), {input}, compute);
    EXPECT_FALSE(same_bits(cut.data.at("logits"), want.data.at("logits")));
  }
}

TEST(Properties, LaterTokensDoNotReachEarlierRows) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Dice dice(seed + 60);
    ModelSpec spec = random_spec(dice, Kind::kDecoder);
    const TestModel model = make_model(spec, seed);
    SequenceInput a = random_input(model, dice, 8);
    SequenceInput b = a;
    for (size_t t = 5; t < 8; ++t) b.tokens[t] = (a.tokens[t] + 1) % spec.vocab_size;
    for (Compute compute : kBoth) {
      const Traced one = trace_all(model, {a}, compute);
      const Traced two = trace_all(model, {b}, compute);
      for (const std::string& site : one.order) {
        // Scores are shown for hidden keys too; the pattern is what the mask leaves.
        if (site.ends_with("scores")) continue;
        const size_t axis = token_axis(site);
        EXPECT_TRUE(same_bits(slice(one.data.at(site), one.shape.at(site), axis, 0, 5),
                              slice(two.data.at(site), two.shape.at(site), axis, 0, 5)))
            << site << ", seed " << seed;
      }
    }
  }
}

/// Grouped attention is multi-head attention whose k and v weights are repeated for each group.
TEST(Properties, GroupedHeadsAreRepeatedHeads) {
  ModelSpec grouped = small_decoder();
  for (BlockSpec& block : grouped.stack.blocks) {
    block.attention.k_bias = block.attention.v_bias = true;
    block.attention.qk_norm.emplace();
  }
  const TestModel model = make_model(grouped, 12);
  ModelSpec full = grouped;
  TestModel repeated = model;
  for (BlockSpec& block : full.stack.blocks) block.attention.kv_heads = block.attention.heads;
  const int64_t width = 10;
  const int64_t group = 3;
  for (auto& [name, source] : repeated.sources) {
    if (!name.ends_with(".k.weight") && !name.ends_with(".v.weight") &&
        !name.ends_with(".k.bias") && !name.ends_with(".v.bias")) {
      continue;
    }
    const std::vector<float> old = to_f32(source.tensor);
    const int64_t rows = 2 * width;
    const auto columns = static_cast<std::ptrdiff_t>(old.size()) / rows;
    std::vector<float> values;
    for (int64_t h = 0; h < 6; ++h) {
      const auto begin = old.begin() + h / group * width * columns;
      values.insert(values.end(), begin, begin + width * columns);
    }
    Shape shape = source.tensor.shape();
    shape[0] = 6 * width;
    Tensor tensor = Tensor::from_f32(shape, values);
    source.tensor = tensor.view();
    repeated.storage[name] = tensor;
  }
  repeated = with_weights_of(repeated, full);
  Dice dice(13);
  const SequenceInput input = random_input(model, dice, 7);
  for (Compute compute : kBoth) {
    const Traced want = trace_all(model, {input}, compute);
    const Traced got = trace_all(repeated, {input}, compute);
    for (const std::string& site : want.order) {
      if (got.shape.at(site) != want.shape.at(site)) continue;  // k, v and their forms
      EXPECT_TRUE(close(got.data.at(site), want.data.at(site), tolerance(compute, 2))) << site;
    }
    EXPECT_EQ(got.shape.at("blocks.0.k_rot"), (Shape{1, 7, 6, 10}));
  }
}

/// Rotary attention depends on distances only.
TEST(Properties, ShiftingAllPositionsChangesNoScore) {
  for (RotaryPairing pairing : {RotaryPairing::kHalfSplit, RotaryPairing::kInterleaved}) {
    ModelSpec spec = small_decoder();
    for (BlockSpec& block : spec.stack.blocks) block.attention.rotary->pairing = pairing;
    const TestModel model = make_model(spec, 21);
    Dice dice(22);
    SequenceInput input = random_input(model, dice, 9);
    SequenceInput shifted = input;
    for (int64_t t = 0; t < 9; ++t) shifted.positions.push_back(t + 1000);
    const Traced want = trace_all(model, {input}, Compute::kF64);
    const Traced got = trace_all(model, {shifted}, Compute::kF64);
    EXPECT_FALSE(close(got.data.at("blocks.0.q_rot"), want.data.at("blocks.0.q_rot"), 1e-3));
    for (const char* site : {"blocks.0.scores", "blocks.1.pattern", "logits"}) {
      // An angle of 1000 turns is rounded 1000 times more coarsely than one of 1.
      EXPECT_TRUE(close(got.data.at(site), want.data.at(site), 1000 * tolerance(Compute::kF64, 2)))
          << site;
    }
  }
}

/// Position 0 turns by nothing, and a turn keeps the length of every pair.
TEST(Properties, TurnsKeepLengths) {
  const TestModel model = make_model(small_decoder(), 23);
  Dice dice(24);
  const SequenceInput input = random_input(model, dice, 6);
  for (Compute compute : kBoth) {
    const Traced traced = trace_all(model, {input}, compute);
    const auto& before = traced.data.at("blocks.0.q");
    const auto& after = traced.data.at("blocks.0.q_rot");
    EXPECT_TRUE(same_bits(slice(before, {6, 60}, 0, 0, 1), slice(after, {6, 60}, 0, 0, 1)));
    std::vector<double> lengths, wanted;
    for (size_t head = 0; head < before.size(); head += 10) {
      for (size_t j = 0; j < 4; ++j) {
        lengths.push_back(std::hypot(after[head + j], after[head + j + 4]));
        wanted.push_back(std::hypot(before[head + j], before[head + j + 4]));
      }
      EXPECT_EQ(after[head + 8], before[head + 8]);
      EXPECT_EQ(after[head + 9], before[head + 9]);
    }
    EXPECT_TRUE(close(lengths, wanted, tolerance(compute, 1)));
  }
}

/// Every pattern row that sees a key sums to one; hidden keys have exactly none of it.
TEST(Properties, PatternsAreDistributionsOverVisibleKeys) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Dice dice(seed + 30);
    const TestModel model = make_model(random_spec(dice, Kind::kDecoder), seed);
    const SequenceInput input = random_input(model, dice, 6);
    for (Compute compute : kBoth) {
      const Traced traced = trace_all(model, {input}, compute);
      const auto& pattern = traced.data.at("blocks.0.pattern");
      for (size_t row = 0; row < pattern.size() / 6; ++row) {
        double sum = 0;
        for (size_t s = 0; s < 6; ++s) {
          sum += pattern[row * 6 + s];
          const bool hidden = s > row % 6;
          EXPECT_TRUE(!hidden || pattern[row * 6 + s] == 0);
        }
        EXPECT_NEAR(sum, 1, tolerance(compute, 1));
      }
    }
  }
}

/// A constant on all logits of the scores' row changes nothing: equal slopes of zero length.
TEST(Properties, ZeroSlopesAreNoBias) {
  ModelSpec spec = small_decoder();
  const TestModel model = make_model(spec, 41);
  for (BlockSpec& block : spec.stack.blocks) block.attention.alibi_slopes.assign(6, 0.0);
  Dice dice(42);
  const SequenceInput input = random_input(model, dice, 6);
  const Traced want = trace_all(model, {input}, Compute::kF64);
  const Traced got = trace_all(with_weights_of(model, spec), {input}, Compute::kF64);
  EXPECT_TRUE(close(got.data.at("logits"), want.data.at("logits"), 0.0));
}

/// NaN and infinity are findings: they arrive where they belong and nowhere else.
TEST(Properties, NanStaysVisible) {
  for (Compute compute : {Compute::kF64, Compute::kF32Reference, Compute::kF32}) {
    BlockSpec block = small_decoder().stack.blocks[0];
    for (bool relu : {false, true}) {
      block.mlp.activation = relu ? Activation::kRelu : Activation::kSilu;
      const TestModel model = make_block(block, 51);
      Dice dice(52);
      SequenceInput input = random_input(model, dice, 5);
      input.input[2 * 22 + 3] = std::numeric_limits<double>::quiet_NaN();
      const Traced traced = trace_all(model, {input}, compute);
      for (const std::string& site : traced.order) {
        if (is_square(site)) continue;
        const auto& shape = traced.shape.at(site);
        for (double value : slice(traced.data.at(site), shape, 1, 0, 2)) {
          EXPECT_TRUE(std::isfinite(value)) << site;
        }
      }
      for (double value : slice(traced.data.at("blocks.0.mlp_act"), {1, 5, 37}, 1, 2, 3)) {
        EXPECT_TRUE(std::isnan(value));
      }
      for (double value : slice(traced.data.at("blocks.0.resid_post"), {1, 5, 22}, 1, 3, 5)) {
        EXPECT_TRUE(std::isnan(value));  // later rows attend to it
      }
    }
  }
}

}  // namespace
}  // namespace mainstem::testing
