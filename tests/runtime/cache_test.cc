// Sequences that continue: chunks, single steps, mixtures and padding against one whole pass.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "mainstem/error.h"
#include "support/bounds.h"
#include "support/compare.h"
#include "support/parts.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

constexpr double kEps32 = std::numeric_limits<float>::epsilon();

/// A decoder (every fourth with an encoder) whose angles do not depend on the length.
TestModel random_decoder(uint64_t seed, Dice& dice) {
  ModelSpec spec;
  do {
    spec = random_spec(dice, seed % 4 == 3 ? Kind::kEncoderDecoder : Kind::kDecoder);
  } while (depends_on_length(spec));
  return make_model(spec, seed);
}

class Caches : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Caches, ChunksAndStepsEqualOnePassAtEverySite) {
  Dice dice(GetParam() + 1000);
  const TestModel model = random_decoder(GetParam(), dice);
  const int64_t length = dice.between(2, 21);
  SequenceInput input = random_input(model, dice, length);
  if (dice.chance(0.4)) input.left_padding = dice.below(length);
  if (dice.chance(0.2)) {
    for (int64_t t = 0; t < length; ++t) input.positions.push_back(dice.below(50));
  }
  const bool single_steps = dice.chance(0.4);

  for (Compute compute : {Compute::kF64, Compute::kF32Reference, Compute::kF32}) {
    const Traced whole = trace_all(model, {input}, compute);
    Session session(model.bound,
                    {.compute = compute, .threads = 1, .sites = all_sites(model.program())});
    input.sequence = session.add_sequence();
    int64_t begin = 0;
    while (begin < length) {
      int64_t end = begin + (single_steps ? 1 : dice.between(1, 7));
      if (begin == 0) end = std::max(end, input.left_padding);
      end = std::min(end, length);
      const SequenceInput part = part_of(input, begin, end);
      Traced traced;
      session.forward_all({&part, 1}, traced.sink());
      EXPECT_EQ(session.length(input.sequence), end);
      EXPECT_EQ(begin > 0, traced.data.contains((model.spec.encoder ? "decoder." : "") +
                                                std::string("blocks.0.k_cache")));
      expect_part(model, traced, whole, begin, end, compute);
      begin = end;
    }
  }
}

/// Prompts, chunks and single steps of several sequences in the same passes.
TEST_P(Caches, MixturesEqualEachSequenceAlone) {
  Dice dice(GetParam() + 2000);
  const TestModel model = random_decoder(GetParam(), dice);
  for (Compute compute : {Compute::kF64, Compute::kF32Reference, Compute::kF32}) {
    Session session(model.bound, {.compute = compute, .threads = 2, .sites = {}});
    struct Running {
      SequenceInput whole;
      std::vector<double> want, got;
      int64_t done = 0;
    };
    std::vector<Running> all(3);
    for (Running& each : all) {
      each.whole = random_input(model, dice, dice.between(1, 19));
      Session alone(model.bound, {.compute = compute, .threads = 1, .sites = {}});
      each.whole.sequence = alone.add_sequence();
      each.want = alone.forward_all({&each.whole, 1});
      each.whole.sequence = session.add_sequence();
    }
    for (bool more = true; more;) {
      more = false;
      std::vector<SequenceInput> pass;
      std::vector<Running*> who;
      for (Running& each : all) {
        const auto length = static_cast<int64_t>(each.whole.tokens.size());
        if (each.done == length) continue;
        more = true;
        if (dice.chance(0.3)) continue;
        const int64_t end =
            std::min(length, each.done + (dice.chance(0.5) ? 1 : dice.between(2, 9)));
        pass.push_back(part_of(each.whole, each.done, end));
        who.push_back(&each);
        each.done = end;
      }
      if (pass.empty()) continue;
      const std::vector<double> out = session.forward_all(pass);
      size_t at = 0;
      for (size_t i = 0; i < pass.size(); ++i) {
        const size_t count =
            who[i]->want.size() / who[i]->whole.tokens.size() * pass[i].tokens.size();
        who[i]->got.insert(who[i]->got.end(), out.begin() + static_cast<std::ptrdiff_t>(at),
                           out.begin() + static_cast<std::ptrdiff_t>(at + count));
        at += count;
      }
      EXPECT_EQ(at, out.size());
    }
    for (const Running& each : all) {
      EXPECT_TRUE(equal_for(compute, each.got, each.want, model.blocks));
    }
  }
}

TEST_P(Caches, LeftPaddingChangesNoRealRow) {
  Dice dice(GetParam() + 3000);
  const TestModel model = GetParam() % 3 == 0
                              ? make_model(random_spec(dice, Kind::kEncoder), GetParam())
                              : random_decoder(GetParam(), dice);
  const int64_t length = dice.between(1, 12);
  const int64_t padding = dice.between(1, 6);
  const SequenceInput plain = random_input(model, dice, length);
  SequenceInput padded = plain;
  padded.left_padding = padding;
  padded.tokens.insert(padded.tokens.begin(), static_cast<size_t>(padding), 7);
  if (!padded.token_types.empty()) {
    padded.token_types.insert(padded.token_types.begin(), static_cast<size_t>(padding), 0);
  }
  if (!plain.encoder_tokens.empty()) {
    padded.encoder_left_padding = padding;
    padded.encoder_tokens.insert(padded.encoder_tokens.begin(), static_cast<size_t>(padding), 3);
  }
  for (Compute compute : {Compute::kF64, Compute::kF32}) {
    const Traced want = trace_all(model, {plain}, compute);
    const Traced got = trace_all(model, {padded}, compute);
    for (const std::string& site : want.order) {
      SCOPED_TRACE(site);
      // ALiBi counts from the first key: a constant per row, so only patterns can be compared.
      if (site.ends_with("scores") && site.find("cross") == std::string::npos) continue;
      const auto& shape = got.shape.at(site);
      const size_t axis = token_axis(site);
      std::vector<double> rows = got.data.at(site);
      std::vector<int64_t> cut = shape;
      const bool of_cross = site.ends_with("cross_scores") || site.ends_with("cross_pattern");
      rows = slice(rows, cut, axis, padding, cut[axis]);
      cut[axis] -= padding;
      if (is_square(site)) rows = slice(rows, cut, 3, padding, cut[3]);
      EXPECT_TRUE(
          close(rows, want.data.at(site),
                bounds::end_to_end(
                    compute == Compute::kF32 ? kEps32 : std::numeric_limits<double>::epsilon(),
                    model.blocks)));
      // A padding row sees nothing and mixes nothing.
      if (site.ends_with("attn_mix") && !of_cross && site.find("cross") == std::string::npos) {
        for (double value : slice(got.data.at(site), shape, 1, 0, padding)) EXPECT_EQ(value, 0);
      }
      if (site.ends_with("pattern") && !of_cross) {
        for (double value : slice(got.data.at(site), shape, 2, 0, padding)) EXPECT_EQ(value, 0);
        for (double value : slice(got.data.at(site), shape, 3, 0, padding)) EXPECT_EQ(value, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Caches, ::testing::Range<uint64_t>(0, 60));

/// Two blocks that go over to their long divisors after 4 and after 9 positions.
TestModel longrope_model(uint64_t seed) {
  ModelSpec spec = small_decoder();
  int64_t original = 4;
  for (BlockSpec& block : spec.stack.blocks) {
    RotaryScaling& scaling = block.attention.rotary->scaling;
    scaling.kind = RotaryScalingKind::kLongRope;
    scaling.factor = 2.5;
    scaling.original_context = original;
    scaling.short_divisors = {1, 1.1, 1.2, 1.3};
    scaling.long_divisors = {2, 3, 4, 5};
    original = 9;
  }
  return make_model(spec, seed);
}

/// A cache that is outgrown is made anew, so that every part is as in one pass up to its end.
TEST(LongRope, EveryPartIsThatOfAPassUpToItsEnd) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const TestModel model = longrope_model(seed);
    Dice dice(seed);
    SequenceInput input = random_input(model, dice, 14);
    if (seed % 3 == 1) input.left_padding = 3;
    for (int64_t t = 0; seed % 3 == 2 && t < 14; ++t) {
      input.positions.push_back(t == 0 ? 0 : input.positions.back() + dice.between(0, 2));
    }
    const Compute compute = seed % 2 == 0 ? Compute::kF64 : Compute::kF32;
    Session session(model.bound,
                    {.compute = compute, .threads = 1, .sites = all_sites(model.program())});
    input.sequence = session.add_sequence();
    for (int64_t begin = 0, end = 0; begin < 14; begin = end) {
      end = std::min<int64_t>(14, begin + dice.between(begin == 0 ? 3 : 1, 5));
      const Traced whole = trace_all(model, {part_of(input, 0, end)}, compute);
      SequenceInput wrong = part_of(input, begin, end);
      wrong.tokens.back() = 31;  // outside the vocabulary: nothing of it may stay
      EXPECT_THROW(session.forward_all({&wrong, 1}), Error);
      const SequenceInput part = part_of(input, begin, end);
      Traced traced;
      session.forward_all({&part, 1}, traced.sink());
      expect_part(model, traced, whole, begin, end, compute);
      EXPECT_EQ(session.length(input.sequence), end);
    }
    session.reset(input.sequence);
    const SequenceInput again = part_of(input, 0, 4);
    const Traced first = trace_all(model, {again}, compute);
    Traced traced;
    session.forward_all({&again, 1}, traced.sink());
    expect_part(model, traced, first, 0, 4, compute);
  }
}

/// Each sequence of a pass goes by its own length.
TEST(LongRope, SequencesDoNotSeeEachOthersLength) {
  const TestModel model = longrope_model(3);
  Dice dice(4);
  const SequenceInput shorter = random_input(model, dice, 3),
                      longer = random_input(model, dice, 12);
  const auto alone = [&](SequenceInput input) {
    Session session(model.bound, {.compute = Compute::kF64, .threads = 1, .sites = {}});
    input.sequence = session.add_sequence();
    return session.forward({&input, 1});
  };
  Session session(model.bound, {.compute = Compute::kF64, .threads = 1, .sites = {}});
  SequenceInput both[] = {shorter, longer};
  for (SequenceInput& input : both) input.sequence = session.add_sequence();
  std::vector<float> want = alone(shorter);
  const std::vector<float> second = alone(longer);
  want.insert(want.end(), second.begin(), second.end());
  EXPECT_EQ(session.forward(both), want);
}

/// With a dynamic base every pass turns by the longest position it has seen; old keys stay as
/// they were turned.
TEST(DynamicRotary, EachStepTurnsAsAPassOfItsLength) {
  for (RotaryScalingKind kind : {RotaryScalingKind::kDynamic, RotaryScalingKind::kLongRope}) {
    ModelSpec spec = small_decoder();
    spec.stack.blocks.resize(1);
    RotaryScaling& scaling = spec.stack.blocks[0].attention.rotary->scaling;
    scaling.kind = kind;
    scaling.factor = 2.5;
    scaling.original_context = 4;
    scaling.short_divisors = {1, 1.1, 1.2, 1.3};
    scaling.long_divisors = {2, 3, 4, 5};
    const TestModel model = make_model(spec, 5);
    Dice dice(6);
    SequenceInput input = random_input(model, dice, 9);
    Session session(
        model.bound,
        {.compute = Compute::kF64, .threads = 1, .sites = {*parse_site("blocks.0.q_rot")}});
    input.sequence = session.add_sequence();
    for (int64_t t = 0; t < 9; ++t) {
      const SequenceInput step = part_of(input, t, t + 1);
      Traced traced;
      session.forward_all({&step, 1}, traced.sink());
      const oracle::Trace want = run_oracle(model, {part_of(input, 0, t + 1)});
      const oracle::Values& turned = want.at("blocks.0.q_rot");
      EXPECT_TRUE(close(traced.data.at("blocks.0.q_rot"),
                        slice(turned.data, turned.shape, 1, t, t + 1),
                        bounds::end_to_end(std::numeric_limits<double>::epsilon(), 1)))
          << "position " << t;
    }
  }
}

}  // namespace
}  // namespace mainstem::testing
