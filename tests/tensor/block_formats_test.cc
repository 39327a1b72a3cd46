#include "tensor/block_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mainstem/error.h"

namespace mainstem {
namespace {

using nlohmann::json;

constexpr DType kQuantised[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                DType::kQ8_0, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,
                                DType::kQ5_K, DType::kQ6_K};

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

struct Golden {
  std::vector<std::byte> blocks;
  std::vector<float> values;  // by gguf-py
  int64_t count;
};

class BlockFormats : public testing::TestWithParam<DType> {
 protected:
  static Golden golden() {
    static const json all =
        json::parse(std::ifstream(std::string(MAINSTEM_TEST_DATA) + "/golden/block_formats.json"));
    const DTypeInfo& type = info(GetParam());
    const json& entry = all.at(std::string(type.name));
    EXPECT_EQ(entry["block_bytes"], type.block_bytes);
    EXPECT_EQ(entry["block_elements"], type.block_elements);
    Golden golden{from_hex(entry["blocks"]), {}, 0};
    golden.count = static_cast<int64_t>(golden.blocks.size()) / type.block_bytes;
    const std::vector<std::byte> raw = from_hex(entry["f32_bits"]);
    golden.values.resize(raw.size() / sizeof(float));
    std::memcpy(golden.values.data(), raw.data(), raw.size());
    EXPECT_EQ(golden.values.size(), static_cast<size_t>(golden.count * type.block_elements));
    EXPECT_GE(golden.count, 9);
    return golden;
  }
};

bool same_bits(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST_P(BlockFormats, FloatHasTheBitsOfGgufPy) {
  const Golden expected = golden();
  std::vector<float> got(expected.values.size());
  dequantize_blocks(GetParam(), expected.blocks.data(), expected.count, got.data());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(same_bits(got[i], expected.values[i]))
        << i << ": " << got[i] << " for " << expected.values[i];
  }
}

// The only rounding in float is the last step, so the exact value rounds to it.
TEST_P(BlockFormats, DoubleRoundsToTheFloat) {
  const Golden expected = golden();
  std::vector<double> got(expected.values.size());
  dequantize_blocks(GetParam(), expected.blocks.data(), expected.count, got.data());
  int finer = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(same_bits(static_cast<float>(got[i]), expected.values[i])) << i;
    if (std::isfinite(got[i])) {
      const double scaled = std::ldexp(got[i], 24);
      ASSERT_EQ(scaled, std::nearbyint(scaled)) << "a multiple of 2^-24";
      finer += got[i] != static_cast<float>(got[i]) ? 1 : 0;
    }
  }
  const bool has_minimum = block_scales(GetParam()).minimum >= 0;
  EXPECT_EQ(finer != 0, has_minimum) << finer;
}

TEST_P(BlockFormats, NothingIsLeftOfABlockWithoutItsScales) {
  Golden expected = golden();
  const BlockScales scales = block_scales(GetParam());
  for (int64_t block = 0; block < expected.count; ++block) {
    std::byte* at = expected.blocks.data() + block * info(GetParam()).block_bytes;
    for (const int offset : {scales.scale, scales.minimum}) {
      if (offset >= 0) std::memset(at + offset, 0, 2);
    }
  }
  std::vector<double> got(expected.values.size());
  dequantize_blocks(GetParam(), expected.blocks.data(), expected.count, got.data());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 0) << i;
}

TEST_P(BlockFormats, PartsOfRowsEqualTheWhole) {
  const Golden expected = golden();
  const int64_t elements = info(GetParam()).block_elements;
  const TensorView view(GetParam(), {3, 3 * elements}, expected.blocks.data());
  const std::vector<float> all = to_f32(view);
  std::vector<float> part(2 * elements, -1);
  read_row(view, 1, elements, 3 * elements, part.data());
  for (size_t i = 0; i < part.size(); ++i) {
    ASSERT_TRUE(same_bits(part[i], all[4 * elements + i])) << i;
    ASSERT_TRUE(same_bits(part[i], expected.values[4 * elements + i])) << i;
  }
  EXPECT_THROW(read_row(view, 1, 1, elements, part.data()), Error);
  EXPECT_THROW(read_row(view, 1, 0, elements - 1, part.data()), Error);
}

INSTANTIATE_TEST_SUITE_P(Types, BlockFormats, testing::ValuesIn(kQuantised),
                         [](const auto& param) { return std::string(name(param.param)); });

// The layouts once more, by hand, so that the golden file is not the only witness.
TEST(BlockLayout, NibblesOfQ4AreHalvesApart) {
  std::byte block[18] = {std::byte{0x00}, std::byte{0x3c}};  // d = 1
  block[2] = std::byte{0x9f};                                // elements 0 and 16: 15 - 8, 9 - 8
  block[17] = std::byte{0x01};                               // elements 15 and 31: 1 - 8, 0 - 8
  float out[32];
  dequantize_blocks(DType::kQ4_0, block, 1, out);
  EXPECT_EQ(out[0], 7);
  EXPECT_EQ(out[16], 1);
  EXPECT_EQ(out[15], -7);
  EXPECT_EQ(out[31], -8);
  EXPECT_EQ(out[1], -8);
}

TEST(BlockLayout, PlainTypesHaveNoBlocks) {
  float out = 0;
  const std::byte data[4] = {};
  EXPECT_THROW(dequantize_blocks(DType::kF32, data, 1, &out), Error);
  EXPECT_THROW(block_scales(DType::kF32), Error);
}

}  // namespace
}  // namespace mainstem
