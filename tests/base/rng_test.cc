#include "mainstem/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/box_muller.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

using nlohmann::json;

json read_golden(const std::string& name) {
  std::ifstream file(std::string(MAINSTEM_TEST_DATA) + "/golden/" + name);
  return json::parse(file);
}

template <typename T>
std::vector<T> flat(const json& values) {
  std::vector<T> result;
  for (const json& value : values) {
    if (value.is_array()) {
      for (T inner : flat<T>(value)) result.push_back(inner);
    } else {
      result.push_back(value.get<T>());
    }
  }
  return result;
}

std::vector<float> randn(Generator& generator, size_t count) {
  std::vector<float> values(count);
  generator.randn(values);
  return values;
}

TEST(Generator, WordsAreThoseOfMt19937) {
  for (uint32_t seed : {0u, 1u, 42u, 5489u, 0xffffffffu}) {
    Generator generator(seed);
    std::mt19937 reference(seed);
    for (int i = 0; i < 2000; ++i)
      ASSERT_EQ(generator.next_word(), reference()) << seed << " " << i;
  }
  // The value that the C++ standard states for the default seed, [rand.predef].
  Generator generator;
  for (int i = 1; i < 10000; ++i) generator.next_word();
  EXPECT_EQ(generator.next_word(), 4123659995u);
}

TEST(Generator, LowBitsOfTheSeedCount) {
  Generator a(42), b((uint64_t{1} << 32) + 42);
  EXPECT_EQ(a.next_word(), b.next_word());
}

TEST(Generator, LessonValues) {
  const json golden = read_golden("lesson/randn.json");
  const auto seed = golden["seed"].get<uint64_t>();
  Generator generator;

  generator.manual_seed(seed);
  for (uint32_t word : flat<uint32_t>(golden["mt19937_words"])) {
    EXPECT_EQ(generator.next_word(), word);
  }

  int sizes = 0;
  for (const auto& [count, values] : golden["randn_float32"].items()) {
    generator.manual_seed(seed);
    EXPECT_EQ(randn(generator, std::stoul(count)), flat<float>(values)) << count;
    ++sizes;
  }
  EXPECT_EQ(sizes, 12);
  for (const auto& [count, values] : golden["randn_float64"].items()) {
    generator.manual_seed(seed);
    const auto expected = flat<double>(values);
    std::vector<double> got(std::stoul(count));
    generator.randn(got);
    ASSERT_EQ(got.size(), expected.size());
    // The C library's functions may differ in the last places.
    for (size_t i = 0; i < got.size(); ++i) EXPECT_DOUBLE_EQ(got[i], expected[i]) << count;
  }

  std::vector<float> uniforms(10);
  generator.manual_seed(seed);
  generator.rand(uniforms);
  EXPECT_EQ(uniforms, flat<float>(golden["rand_10_float32"]));
  std::vector<double> wide_uniforms(10);
  generator.manual_seed(seed);
  generator.rand(wide_uniforms);
  EXPECT_EQ(wide_uniforms, flat<double>(golden["rand_10_float64"]));
  std::vector<int64_t> integers(10);
  generator.manual_seed(seed);
  generator.randint(integers, 0, 1000);
  EXPECT_EQ(integers, flat<int64_t>(golden["randint_0_1000_10"]));
  generator.manual_seed(seed);
  EXPECT_EQ(generator.randperm(10), flat<int64_t>(golden["randperm_10"]));
}

TEST(Generator, LessonSeeds) {
  const json golden = read_golden("lesson/randn.json");
  for (const auto& [seed, values] : golden["other_seeds_randn_8_and_16"].items()) {
    Generator generator(std::stoull(seed));
    EXPECT_EQ(randn(generator, 8), flat<float>(values[0])) << seed;
    generator.manual_seed(std::stoull(seed));
    EXPECT_EQ(randn(generator, 16), flat<float>(values[1])) << seed;
  }
}

// The scalar recipe keeps a spare normal across other calls.
TEST(Generator, LessonSequenceWithoutReseeding) {
  const json values = read_golden("lesson/randn.json")["sequence"]["values"];
  Generator generator(42);
  const auto expect_randn = [&](size_t step, size_t count) {
    EXPECT_EQ(randn(generator, count), flat<float>(values[step])) << step;
  };
  expect_randn(0, 3);
  std::vector<float> uniforms(2);
  generator.rand(uniforms);
  EXPECT_EQ(uniforms, flat<float>(values[1]));
  expect_randn(2, 1);
  expect_randn(3, 16);
  expect_randn(4, 1);
  expect_randn(5, 20);
  expect_randn(6, 5);
}

TEST(Generator, SeedingDropsTheSpareNormal) {
  Generator generator(7);
  const std::vector<float> first = randn(generator, 1);
  generator.manual_seed(7);
  EXPECT_EQ(randn(generator, 1), first);
}

TEST(Init, LessonValues) {
  const json golden = read_golden("lesson/randn.json")["init"];
  Generator generator(42);
  const LinearInit linear = init_linear(generator, 8, 4);
  EXPECT_EQ(linear.weight, flat<float>(golden["Linear_8_4"]["weight"]));
  EXPECT_EQ(linear.bias, flat<float>(golden["Linear_8_4"]["bias"]));

  generator.manual_seed(42);
  const MultiheadAttentionInit attention = init_multihead_attention(generator, 8);
  const json& expected = golden["MultiheadAttention_8_2"];
  EXPECT_EQ(attention.in_proj_weight, flat<float>(expected["in_proj_weight"]));
  EXPECT_EQ(attention.in_proj_bias, flat<float>(expected["in_proj_bias"]));
  EXPECT_EQ(attention.out_proj_weight, flat<float>(expected["out_proj.weight"]));
  EXPECT_EQ(attention.out_proj_bias, flat<float>(expected["out_proj.bias"]));

  generator.manual_seed(42);
  EXPECT_EQ(randn(generator, 30), flat<float>(golden["Embedding_5_6"]["weight"]));

  std::vector<float> values(15);
  generator.manual_seed(42);
  const double xavier = std::sqrt(3.0) * std::sqrt(2.0 / 8);
  generator.uniform(values, -xavier, xavier);
  EXPECT_EQ(values, flat<float>(golden["xavier_uniform_3x5"]));
}

TEST(Init, LinearWithoutBiasDrawsNoneForIt) {
  Generator a(3), b(3);
  const LinearInit without = init_linear(a, 5, 7, false);
  const LinearInit with = init_linear(b, 5, 7);
  EXPECT_EQ(without.weight, with.weight);
  EXPECT_TRUE(without.bias.empty());
  Generator c(3);
  for (int i = 0; i < 35; ++i) c.next_word();
  EXPECT_EQ(a.next_word(), c.next_word());
}

uint64_t fnv1a(const void* data, size_t bytes) {
  uint64_t value = 0xcbf29ce484222325u;
  for (const auto* p = static_cast<const unsigned char*>(data); bytes != 0; --bytes, ++p) {
    value = (value ^ *p) * 0x100000001b3u;
  }
  return value;
}

template <typename T>
void expect_recorded(const json& call, const std::vector<T>& values) {
  ASSERT_EQ(values.size(), call["count"].get<size_t>());
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  for (size_t i = 0; i < call["first_bits"].size(); ++i) {
    EXPECT_EQ(std::bit_cast<Bits>(values[i]), call["first_bits"][i].get<Bits>()) << i;
  }
  EXPECT_EQ(fnv1a(values.data(), values.size() * sizeof(T)),
            std::stoull(call["fnv1a"].get<std::string>(), nullptr, 16));
}

void repeat_call(Generator& generator, const json& call) {
  const auto kind = call["call"].get<std::string>();
  const auto count = call["count"].get<size_t>();
  if (kind == "randn") {
    expect_recorded(call, randn(generator, count));
  } else if (kind == "uniform") {
    std::vector<float> values(count);
    generator.uniform(values, call["low"], call["high"]);
    expect_recorded(call, values);
  } else if (kind == "rand") {
    std::vector<float> values(count);
    generator.rand(values);
    expect_recorded(call, values);
  } else if (kind == "rand64") {
    std::vector<double> values(count);
    generator.rand(values);
    expect_recorded(call, values);
  } else if (kind == "randint") {
    std::vector<int64_t> values(count);
    generator.randint(values, call["low"], call["high"]);
    expect_recorded(call, values);
  } else if (kind == "randperm") {
    expect_recorded(call, generator.randperm(static_cast<int64_t>(count)));
  } else if (kind == "linear") {
    LinearInit init = init_linear(generator, call["fan_in"], call["fan_out"]);
    init.weight.insert(init.weight.end(), init.bias.begin(), init.bias.end());
    expect_recorded(call, init.weight);
  } else if (kind == "attention") {
    const MultiheadAttentionInit init = init_multihead_attention(generator, call["width"]);
    std::vector<float> all;
    for (const auto* part :
         {&init.in_proj_weight, &init.in_proj_bias, &init.out_proj_weight, &init.out_proj_bias}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    expect_recorded(call, all);
  } else {
    FAIL() << "a call this test does not know: " << kind;
  }
}

TEST(Generator, TorchCallAfterCall) {
  const json golden = read_golden("random.json");
  ASSERT_EQ(golden["cases"].size(), 4u);
  for (const json& one : golden["cases"]) {
    Generator generator(one["seed"].get<uint64_t>());
    size_t index = 0;
    for (const json& call : one["calls"]) {
      SCOPED_TRACE("seed " + one["seed"].dump() + ", call " + std::to_string(index++) + ", " +
                   call["call"].dump());
      repeat_call(generator, call);
    }
  }
}

TEST(BoxMuller, PortableCodeGivesTheSameBits) {
  constexpr size_t kGroups = 20000;
  std::vector<float> values(kGroups * kBoxMullerGroup);
  Generator(11).rand(values);
  // The ends of the interval in both roles.
  values[0] = values[8] = 0.0f;
  values[1] = values[9] = 1.0f - 0x1p-24f;
  values[2] = values[10] = 0x1p-24f;
  values[3] = values[11] = 0.5f;
  std::vector<float> portable = values;
  box_muller(values.data(), kGroups);
  box_muller_portable(portable.data(), kGroups);
  EXPECT_EQ(std::memcmp(values.data(), portable.data(), values.size() * sizeof(float)), 0);
  EXPECT_EQ(values[0], 0.0f);  // log 1
  EXPECT_TRUE(std::isfinite(values[1]));
}

TEST(Generator, IntegersCoverTheirRange) {
  Generator generator(1);
  std::vector<int64_t> values(400);
  generator.randint(values, -2, 2);
  for (int64_t wanted = -2; wanted < 2; ++wanted) {
    EXPECT_NE(std::count(values.begin(), values.end(), wanted), 0) << wanted;
  }
  for (int64_t value : values) EXPECT_TRUE(value >= -2 && value < 2) << value;
  EXPECT_THROW(generator.randint(values, 3, 3), Error);
  EXPECT_THROW(generator.randint(values, 3, 2), Error);
}

TEST(Generator, EmptyRequestsDrawNothing) {
  Generator generator(9), untouched(9);
  generator.randn(std::span<float>{});
  generator.randn(std::span<double>{});
  generator.rand(std::span<float>{});
  EXPECT_TRUE(generator.randperm(0).empty());
  EXPECT_EQ(generator.randperm(1), std::vector<int64_t>{0});
  EXPECT_EQ(generator.next_word(), untouched.next_word());
  EXPECT_THROW(generator.randperm(-1), Error);
  EXPECT_THROW(init_linear(generator, 0, 4), Error);
  EXPECT_THROW(init_linear(generator, 4, -1), Error);
  EXPECT_THROW(init_linear(generator, int64_t{1} << 40, int64_t{1} << 40), Error);
}

}  // namespace
}  // namespace mainstem
