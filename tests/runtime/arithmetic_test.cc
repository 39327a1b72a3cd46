// Passes in double that imitate implementations of lower precision.

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "kernels/reference/arithmetic.h"
#include "mainstem/error.h"
#include "support/bounds.h"
#include "support/compare.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

constexpr ArithmeticType kTypes[] = {ArithmeticType::kF32, ArithmeticType::kBF16,
                                     ArithmeticType::kF16, ArithmeticType::kQ8Act};

std::vector<Arithmetic> all_arithmetics() {
  std::vector<Arithmetic> result;
  for (const ArithmeticType type : kTypes) {
    for (int v = 0; v < arithmetic_variants(type); ++v) result.push_back({type, v});
  }
  return result;
}

std::string label(const Arithmetic& a) {
  return "type " + std::to_string(static_cast<int>(a.type)) + " variant " +
         std::to_string(a.variant);
}

/// The distance between 1 and the next number of the type that values are stored in.
double epsilon_of(ArithmeticType type) {
  switch (type) {
    case ArithmeticType::kBF16:
      return 0x1p-7;
    case ArithmeticType::kF16:
      return 0x1p-10;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}
float stored(ArithmeticType type, double value) {
  const auto narrow = static_cast<float>(value);
  if (type == ArithmeticType::kBF16) return bf16_to_f32(f32_to_bf16(narrow));
  return type == ArithmeticType::kF16 ? f16_to_f32(f32_to_f16(narrow)) : narrow;
}

Traced trace(const TestModel& model, const SequenceInput& input, const Arithmetic& arithmetic,
             int threads = 1) {
  Session session(model.bound, {.compute = Compute::kF64,
                                .threads = threads,
                                .sites = all_sites(model.program()),
                                .arithmetic = arithmetic});
  SequenceInput own = input;
  own.sequence = session.add_sequence();
  Traced traced;
  session.forward_all({&own, 1}, traced.sink());
  return traced;
}

TestModel random_model(uint64_t seed) {
  Dice dice(seed * 31 + 7);
  const Kind kind =
      seed % 4 == 3 ? Kind::kEncoderDecoder : (seed % 4 == 2 ? Kind::kEncoder : Kind::kDecoder);
  return make_model(random_spec(dice, kind), seed);
}

TEST(Arithmetic, KnowsItsVariants) {
  EXPECT_EQ(arithmetic_variants(ArithmeticType::kF64), 1);
  EXPECT_EQ(describe({}), "double");
  for (const ArithmeticType type : kTypes) {
    const int count = arithmetic_variants(type);
    EXPECT_GE(count, 4);
    EXPECT_LE(count, 8);  // an envelope runs all of them
    std::set<std::string_view> texts;
    for (int v = 0; v < count; ++v) texts.insert(describe({type, v}));
    EXPECT_EQ(texts.size(), static_cast<size_t>(count));
    EXPECT_THROW(describe({type, count}), Error);
    EXPECT_THROW(describe({type, -1}), Error);
  }
  const TestModel model = make_model(small_decoder(), 1);
  EXPECT_THROW(Session(model.bound, {.arithmetic = {ArithmeticType::kF16, 9}}), Error);
  EXPECT_THROW(
      Session(model.bound, {.compute = Compute::kF32, .arithmetic = {ArithmeticType::kF32, 0}}),
      Error);
}

TEST(Arithmetic, StepsWriteWhatTheirTypeHolds) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const TestModel model = random_model(seed);
    Dice dice(seed);
    const SequenceInput input = random_input(model, dice, 7);
    for (const Arithmetic& arithmetic : all_arithmetics()) {
      const Traced traced = trace(model, input, arithmetic);
      for (const std::string& site : traced.order) {
        // Fused attention keeps its scores and patterns in float32.
        const ArithmeticType type = is_square(site) ? ArithmeticType::kF32 : arithmetic.type;
        for (const double v : traced.data.at(site)) {
          ASSERT_EQ(static_cast<double>(stored(type, v)), v)
              << site << ", " << label(arithmetic) << ", seed " << seed;
        }
      }
    }
  }
}

/// Every variant is a sound implementation: each step is as near to the oracle as the type allows.
TEST(Arithmetic, EveryStepIsRightWithinItsType) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const TestModel model = random_model(seed);
    Dice dice(seed);
    const SequenceInput input = random_input(model, dice, 6);
    for (const Arithmetic& arithmetic : all_arithmetics()) {
      // q8act rounds cached keys, queries and patterns to float16.
      const bool q8 = arithmetic.type == ArithmeticType::kQ8Act;
      const double epsilon = q8 ? 0x1p-9 : epsilon_of(arithmetic.type);
      // Float16 is as coarse as that near zero.
      const double tiny = q8 || arithmetic.type == ArithmeticType::kF16 ? 4 * 0x1p-24 : 0;
      const Traced traced = trace(model, input, arithmetic);
      oracle::Replacements own;
      for (const auto& [site, data] : traced.data) {
        if (!site.ends_with("_cache")) own[site] = data;
      }
      const oracle::Trace want = run_oracle(model, {input}, own);
      for (const auto& [site, values] : want.all()) {
        EXPECT_TRUE(close(own.at(site), values.data,
                          [&](size_t i) {
                            return bounds::one_step(epsilon, values.terms, values.magnitude[i]) +
                                   tiny;
                          }))
            << site << ", " << label(arithmetic) << ", seed " << seed;
      }
    }
  }
}

TEST(Arithmetic, SameBitsForAnyNumberOfThreadsAndOtherBitsForAnyOtherVariant) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const TestModel model = random_model(seed);
    Dice dice(seed);
    const SequenceInput input = random_input(model, dice, 33);
    std::set<std::vector<double>> results;
    for (const Arithmetic& arithmetic : all_arithmetics()) {
      const Traced one = trace(model, input, arithmetic);
      const Traced three = trace(model, input, arithmetic, 3);
      std::vector<double> all;
      for (const std::string& site : one.order) {
        EXPECT_TRUE(same_bits(three.data.at(site), one.data.at(site)))
            << site << ", " << label(arithmetic);
        all.insert(all.end(), one.data.at(site).begin(), one.data.at(site).end());
      }
      EXPECT_TRUE(results.insert(all).second) << label(arithmetic) << " is another one's twin";
    }
  }
}

TEST(Arithmetic, WhatAPatchWroteIsKept) {
  const TestModel model = make_model(small_decoder(), 3);
  Dice dice(4);
  SequenceInput input = random_input(model, dice, 5);
  for (const Arithmetic& arithmetic : all_arithmetics()) {
    const SiteId last = *parse_site("logits");
    Session session(
        model.bound,
        {.compute = Compute::kF64, .threads = 1, .sites = {last}, .arithmetic = arithmetic});
    input.sequence = session.add_sequence();
    const std::vector<double> out =
        session.forward_all({&input, 1}, {}, [](const TraceEvent& event, void* data) {
          std::fill_n(static_cast<double*>(data), event.value.count(), 1.0 / 3);
        });
    for (const double v : out) EXPECT_EQ(v, 1.0 / 3);
  }
}

/// llama.cpp's cache is of float16; the last variant's is not.
TEST(Arithmetic, CachedKeysAndValuesMayBeFloat16) {
  const TestModel model = make_model(small_decoder(), 3);
  Dice dice(4);
  SequenceInput input = random_input(model, dice, 5);
  const int last = arithmetic_variants(ArithmeticType::kQ8Act) - 1;
  for (int v = 0; v <= last; ++v) {
    Session session(model.bound,
                    {.compute = Compute::kF64,
                     .threads = 1,
                     .sites = {*parse_site("blocks.1.k_cache"), *parse_site("blocks.1.v_cache")},
                     .arithmetic = {ArithmeticType::kQ8Act, v}});
    input.sequence = session.add_sequence();
    session.forward_all({&input, 1});
    int seen = 0;
    session.forward_all({&input, 1}, [&](const TraceEvent& event) {
      ++seen;
      const std::vector<double> values = to_f64(event.value);
      const bool halves = std::all_of(values.begin(), values.end(), [](double x) {
        return static_cast<double>(stored(ArithmeticType::kF16, x)) == x;
      });
      EXPECT_EQ(halves, v != last) << to_string(event.site) << ", variant " << v;
    });
    EXPECT_EQ(seen, 2);
  }
}

/// Beyond 65504 a float16 implementation has infinities, and one in bfloat16 has not.
TEST(Arithmetic, Float16Overflows) {
  ModelSpec spec = small_decoder();
  spec.stack.embed_scale = 4e6;
  const TestModel model = make_model(spec, 3);
  Dice dice(4);
  const SequenceInput input = random_input(model, dice, 5);
  const auto finite = [&](ArithmeticType type) {
    const Traced traced = trace(model, input, {type, 0});
    const std::vector<double>& embed = traced.data.at("embed");
    return std::all_of(embed.begin(), embed.end(), [](double v) { return std::isfinite(v); });
  };
  EXPECT_FALSE(finite(ArithmeticType::kF16));
  EXPECT_TRUE(finite(ArithmeticType::kBF16));
  EXPECT_TRUE(finite(ArithmeticType::kF32));
}

}  // namespace
}  // namespace mainstem::testing
