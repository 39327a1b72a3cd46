// What a session promises beyond its numbers: last rows, chunks, threads, several sessions,
// failures in the middle, patches.

#include "mainstem/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>

#include "mainstem/error.h"
#include "support/bounds.h"
#include "support/compare.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

constexpr double kEps64 = std::numeric_limits<double>::epsilon();
constexpr double kEps32 = std::numeric_limits<float>::epsilon();

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
std::vector<float> narrow(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}
SessionOptions options(Compute compute, int threads = 1) {
  return {.compute = compute, .threads = threads, .sites = {}};
}
std::vector<double> last_row(const std::vector<double>& rows, size_t count) {
  return {rows.end() - static_cast<std::ptrdiff_t>(rows.size() / count), rows.end()};
}

TEST(Session, ForwardGivesTheLastRowOfEverySequence) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Dice dice(seed);
    const TestModel model =
        seed % 4 == 0
            ? make_block(random_block(dice, 15, false), seed)
            : make_model(random_spec(dice, seed % 2 ? Kind::kDecoder : Kind::kEncoder), seed);
    Session session(model.bound, options(Compute::kF64));
    std::vector<SequenceInput> inputs;
    std::vector<float> want;
    for (int64_t length : {4, 1, 6}) {
      inputs.push_back(random_input(model, dice, length));
      Session alone(model.bound, options(Compute::kF64));
      inputs.back().sequence = alone.add_sequence();
      const auto row =
          narrow(last_row(alone.forward_all({&inputs.back(), 1}), static_cast<size_t>(length)));
      want.insert(want.end(), row.begin(), row.end());
      inputs.back().sequence = session.add_sequence();
    }
    EXPECT_TRUE(same_bits(session.forward(inputs), want)) << "seed " << seed;
  }
}

TEST(Session, ObserveDeliversWhatForwardAllDelivers) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Dice dice(seed);
    const TestModel model = make_model(random_spec(dice, Kind::kDecoder), seed);
    SessionOptions wanted = options(seed % 2 ? Compute::kF32 : Compute::kF64, 2);
    wanted.sites = all_sites(model.bound->program());
    SequenceInput input = random_input(model, dice, 5);
    const auto values = [&](auto&& run) {
      Session session(model.bound, wanted);
      input.sequence = session.add_sequence();
      std::vector<std::pair<std::string, std::vector<double>>> seen;
      run(session, [&](const TraceEvent& event) {
        seen.emplace_back(to_string(event.site), to_f64(event.value));
      });
      return seen;
    };
    const auto all =
        values([&](Session& s, const TraceSink& sink) { s.forward_all({&input, 1}, sink); });
    const auto observed =
        values([&](Session& s, const TraceSink& sink) { s.observe({&input, 1}, sink); });
    EXPECT_FALSE(all.empty());
    EXPECT_TRUE(all == observed) << "seed " << seed;
    // Scores and patterns of all blocks take turns with one memory: each must be its own step's,
    // also where only one of the two is wanted. (The fast kernels fuse other steps then.)
    if (wanted.compute != Compute::kF64) continue;
    for (const Site site : {Site::kScores, Site::kPattern}) {
      wanted.sites.clear();
      for (const SiteId& id : all_sites(model.bound->program())) {
        if (id.site == site) wanted.sites.push_back(id);
      }
      const auto some =
          values([&](Session& s, const TraceSink& sink) { s.observe({&input, 1}, sink); });
      EXPECT_EQ(some.size(), wanted.sites.size());
      for (const auto& each : some) {
        EXPECT_NE(std::find(all.begin(), all.end(), each), all.end()) << each.first;
      }
      wanted.sites = all_sites(model.bound->program());
    }
  }
}

TEST(Session, ACancelledPassLeavesTheSequenceAsItWas) {
  Dice dice(3);
  const TestModel model = make_model(random_spec(dice, Kind::kDecoder), 3);
  for (const Compute compute : {Compute::kF32, Compute::kF64}) {
    std::atomic<bool> cancel{false};
    SessionOptions cancellable = options(compute, 2);
    cancellable.cancel = &cancel;
    cancellable.sites = {SiteId{Site::kScores, 0}, SiteId{Site::kResidPost, 0}};
    Session session(model.bound, cancellable);
    SequenceInput input = random_input(model, dice, 5);
    input.sequence = session.add_sequence();
    std::vector<std::vector<double>> first, again;
    const auto keep = [](std::vector<std::vector<double>>& values) {
      return [&values](const TraceEvent& event) { values.push_back(to_f64(event.value)); };
    };
    session.observe({&input, 1}, keep(first));
    session.reset(input.sequence);
    // Set in the middle of a pass: the step after it is not delivered.
    int seen = 0;
    EXPECT_THROW(session.observe({&input, 1},
                                 [&](const TraceEvent&) {
                                   ++seen;
                                   cancel = true;
                                 }),
                 Cancelled);
    EXPECT_EQ(seen, 1);
    EXPECT_EQ(session.length(input.sequence), 0);
    EXPECT_THROW(session.forward({&input, 1}), Cancelled);
    cancel = false;
    session.observe({&input, 1}, keep(again));
    EXPECT_EQ(first.size(), 2u);
    EXPECT_TRUE(first == again);
  }
}

/// The chunk option is about memory and speed; the result is that of one pass.
TEST(Session, ChunkedForwardEqualsOnePass) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed + 77);
    const Kind kind =
        seed % 3 == 0 ? Kind::kEncoder : (seed % 3 == 1 ? Kind::kDecoder : Kind::kEncoderDecoder);
    const TestModel model = make_model(random_spec(dice, kind), seed);
    SequenceInput input = random_input(model, dice, 23);
    if (dice.chance(0.3)) input.left_padding = dice.below(9);
    input.token_types.clear();
    SessionOptions whole = options(Compute::kF64);
    SessionOptions chunked = whole;
    chunked.chunk = dice.between(1, 9);
    Session one(model.bound, whole);
    Session many(model.bound, chunked);
    input.sequence = one.add_sequence();
    many.add_sequence();
    EXPECT_TRUE(same_bits(many.forward({&input, 1}), one.forward({&input, 1})));
    EXPECT_EQ(many.length(0), 23);
  }
}

TEST(Session, AFailureInALaterChunkLeavesTheSequenceAsItWas) {
  const TestModel model = make_model(small_decoder(), 3);
  for (Compute compute : {Compute::kF64, Compute::kF32}) {
    Session session(model.bound, {.compute = compute, .threads = 1, .sites = {}, .chunk = 2});
    session.add_sequence();
    SequenceInput good;
    good.tokens = {1, 2, 3};
    SequenceInput bad = good;
    bad.tokens = {4, 5, 6, 7, 31};
    const auto first = session.forward({&good, 1});
    const auto second = session.forward({&good, 1});
    session.reset(0);
    EXPECT_THROW(session.forward({&bad, 1}), Error);
    EXPECT_EQ(session.length(0), 0);
    EXPECT_TRUE(same_bits(session.forward({&good, 1}), first));
    EXPECT_THROW(session.forward({&bad, 1}), Error);
    EXPECT_EQ(session.length(0), 3);
    EXPECT_TRUE(same_bits(session.forward({&good, 1}), second));
  }
}

TEST(Session, SameBitsForAnyNumberOfThreads) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed + 500);
    const TestModel model =
        make_model(random_spec(dice, seed % 3 == 2 ? Kind::kEncoderDecoder : Kind::kDecoder), seed);
    const SequenceInput input = random_input(model, dice, dice.pick<int64_t>({1, 3, 5, 33}));
    for (Compute compute : {Compute::kF64, Compute::kF32}) {
      const Traced one = trace_all(model, {input}, compute, 1);
      std::vector<double> plain;
      for (int threads : {1, 2, 3}) {
        const Traced more = trace_all(model, {input}, compute, threads);
        EXPECT_EQ(more.order, one.order);
        for (const std::string& site : one.order) {
          EXPECT_TRUE(same_bits(more.data.at(site), one.data.at(site))) << site << ", " << threads;
        }
        Session session(model.bound, options(compute, threads));
        session.add_sequence();
        const std::vector<double> out = session.forward_all({&input, 1});
        if (plain.empty()) plain = out;
        EXPECT_TRUE(same_bits(out, plain)) << threads;
      }
    }
  }
}

TEST(Session, RowsOfABatchDoNotTouchEachOther) {
  const TestModel model = make_model(small_decoder(), 3);
  Dice dice(4);
  std::vector<SequenceInput> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(random_input(model, dice, 7));
  std::vector<SequenceInput> other = inputs;
  other[1] = random_input(model, dice, 7);
  for (Compute compute : {Compute::kF64, Compute::kF32}) {
    const Traced a = trace_all(model, inputs, compute);
    const Traced b = trace_all(model, other, compute);
    for (const std::string& site : a.order) {
      for (int64_t row : {0, 2}) {
        EXPECT_TRUE(same_bits(slice(a.data.at(site), a.shape.at(site), 0, row, row + 1),
                              slice(b.data.at(site), b.shape.at(site), 0, row, row + 1)))
            << site;
      }
    }
    EXPECT_FALSE(same_bits(a.data.at("logits"), b.data.at("logits")));
  }
}

TEST(Session, SessionsOfOneProgramAreIndependentAndResetForgets) {
  const TestModel model = make_model(small_decoder(), 8);
  Dice dice(9);
  const SequenceInput a = random_input(model, dice, 6);
  const SequenceInput b = random_input(model, dice, 4);
  for (Compute compute : {Compute::kF64, Compute::kF32}) {
    Session first(model.bound, options(compute));
    Session second(model.bound, options(compute));
    first.add_sequence();
    second.add_sequence();
    const auto fresh_a = first.forward_all({&a, 1});
    const auto fresh_b = second.forward_all({&b, 1});
    const auto a_after_a = first.forward_all({&a, 1});
    EXPECT_FALSE(same_bits(a_after_a, fresh_a));
    EXPECT_EQ(first.length(0), 12);
    EXPECT_EQ(second.length(0), 4);
    first.reset(0);
    EXPECT_EQ(first.length(0), 0);
    EXPECT_TRUE(same_bits(first.forward_all({&b, 1}), fresh_b));
    second.reset(0);
    EXPECT_TRUE(same_bits(second.forward_all({&a, 1}), fresh_a));
  }
}

TEST(Session, SequencesCanBeAddedLater) {
  const TestModel model = make_model(small_decoder(), 8);
  Dice dice(9);
  SequenceInput a = random_input(model, dice, 6);
  SequenceInput b = random_input(model, dice, 4);
  Session session(model.bound, options(Compute::kF64));
  a.sequence = session.add_sequence();
  const auto first = session.forward_all({&a, 1});
  b.sequence = session.add_sequence();
  EXPECT_NE(a.sequence, b.sequence);
  const auto late = session.forward_all({&b, 1});
  session.reset(b.sequence);
  EXPECT_TRUE(same_bits(session.forward_all({&b, 1}), late));
  session.reset(a.sequence);
  EXPECT_TRUE(same_bits(session.forward_all({&a, 1}), first));
}

TEST(Session, AnExceptionOfTheSinkEndsThePassAndLeavesTheSequenceAsItWas) {
  const TestModel model = make_model(small_decoder(), 8);
  Dice dice(10);
  const SequenceInput a = random_input(model, dice, 5);
  const SequenceInput b = random_input(model, dice, 3);
  for (int threads : {1, 3}) {
    for (Compute compute : {Compute::kF64, Compute::kF32}) {
      Session session(
          model.bound,
          {.compute = compute, .threads = threads, .sites = {*parse_site("blocks.1.q")}});
      session.add_sequence();
      session.forward_all({&a, 1});
      const auto fail = [](const TraceEvent&) { throw std::runtime_error("enough"); };
      EXPECT_THROW(session.forward_all({&b, 1}, fail), std::runtime_error);
      EXPECT_EQ(session.length(0), 5);
      const auto after = session.forward_all({&b, 1});
      session.reset(0);
      session.forward_all({&a, 1});
      EXPECT_TRUE(same_bits(session.forward_all({&b, 1}), after));
    }
  }
}

/// A patched value is what every later step reads, the cache too: the oracle says the same when
/// the value takes the place of its own.
TEST(Session, LaterStepsReadAPatchedValue) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Dice dice(seed + 900);
    const TestModel model =
        make_model(random_spec(dice, seed % 4 == 3 ? Kind::kEncoderDecoder : Kind::kDecoder), seed);
    const SequenceInput input = random_input(model, dice, 5);
    std::vector<bool> patched(model.program().values.size());
    for (const NamedValue& named : model.program().sites) {
      const Site site = named.site.site;
      const std::string name = to_string(named.site);
      if (site == Site::kTokens || site == Site::kKCache || site == Site::kVCache) continue;
      // Only the first name of a value: the oracle's second names do not take replacements.
      if (patched[static_cast<size_t>(named.value)]) continue;
      patched[static_cast<size_t>(named.value)] = true;
      for (Compute compute : {Compute::kF64, Compute::kF32}) {
        SCOPED_TRACE(name + ", seed " + std::to_string(seed));
        Session session(model.bound, {.compute = compute, .threads = 1, .sites = {named.site}});
        session.add_sequence();
        oracle::Replacements replace;
        const auto patch = [&](const TraceEvent& event, void* data) {
          std::vector<double>& values = replace[name];
          for (int64_t i = 0; i < event.value.count(); ++i) {
            const double value = 0.25 + 0.5 * static_cast<double>(i % 5);
            values.push_back(value);
            if (compute == Compute::kF64) {
              static_cast<double*>(data)[i] = value;
            } else {
              static_cast<float*>(data)[i] = static_cast<float>(value);
            }
          }
        };
        const std::vector<double> got = session.forward_all({&input, 1}, {}, patch);
        const oracle::Trace trace = run_oracle(model, {input}, replace);
        const NamedValue& last = *std::find_if(
            model.program().sites.begin(), model.program().sites.end(), [&](const NamedValue& n) {
              const auto& step =
                  model.program().step(model.program().value(model.program().output).producer);
              return n.value == model.program().output ||
                     (step.op == Op::kSelectRows && n.value == step.inputs[0]);
            });
        const std::vector<double>& want =
            named.value == last.value ? replace.at(name) : trace.at(to_string(last.site)).data;
        EXPECT_TRUE(
            close(got, want,
                  bounds::end_to_end(compute == Compute::kF64 ? kEps64 : kEps32, model.blocks)));
      }
    }
  }
}

TEST(Session, FastRoundsInputsOfQuantisedProductsOnly) {
  const TestModel model = make_model(small_decoder(), 8, DType::kBF16);
  Dice dice(10);
  const SequenceInput input = random_input(model, dice, 5);
  Session exact(model.bound, options(Compute::kF32));
  Session fast(model.bound, options(Compute::kFast));
  exact.add_sequence();
  fast.add_sequence();
  EXPECT_TRUE(same_bits(fast.forward({&input, 1}), exact.forward({&input, 1})));
}

TEST(Session, ForwardAndForwardAllAgreeInFloat32) {
  const TestModel model = make_model(small_decoder(), 8);
  Dice dice(10);
  const SequenceInput input = random_input(model, dice, 5);
  Session a(model.bound, options(Compute::kF32));
  Session b(model.bound, options(Compute::kF32));
  a.add_sequence();
  b.add_sequence();
  EXPECT_TRUE(close(widen(a.forward({&input, 1})), last_row(b.forward_all({&input, 1}), 5),
                    bounds::end_to_end(kEps32, 2)));
}

TEST(Trace, DeliversWhatWasAskedForInFiringOrder) {
  const TestModel model = make_model(small_decoder(), 8);
  Dice dice(10);
  const SequenceInput input = random_input(model, dice, 5);
  const std::vector<SequenceInput> inputs{input};
  const auto values =
      trace(model.bound, inputs,
            {*parse_site("logits"), *parse_site("tokens"), *parse_site("blocks.1.attn_out")},
            Compute::kF32);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(to_string(values[0].site), "tokens");
  EXPECT_EQ(values[0].value.dtype(), DType::kI64);
  EXPECT_EQ(to_string(values[1].site), "blocks.1.attn_out");
  EXPECT_EQ(values[1].value.dtype(), DType::kF32);
  EXPECT_EQ(to_string(values[2].site), "logits");
  EXPECT_EQ(values[2].value.shape(), (Shape{1, 5, 31}));
  const auto doubles = trace(model.bound, inputs, {*parse_site("logits")}, Compute::kF64);
  EXPECT_EQ(doubles.at(0).value.dtype(), DType::kF64);
}

}  // namespace
}  // namespace mainstem::testing
