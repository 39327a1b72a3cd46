#include "mainstem/gguf.h"

#include <string>
#include <vector>

#include "io/gguf_builder.h"
#include "io/gguf_types.h"

namespace mainstem {
namespace {

using test::Bytes;
using test::expect_bad_input;
using test::GgufBuilder;
using test::TempDir;

class GgufTest : public testing::Test {
 protected:
  GgufFile open(const GgufBuilder& builder) {
    return GgufFile::open(test::write_file(dir / "x.gguf", builder.build()));
  }
  TempDir dir;
};

TEST_F(GgufTest, TensorsAreRowMajor) {
  GgufBuilder builder;
  const std::string data = Bytes().f32(1).f32(2).f32(3).f32(4).f32(5).f32(6).str();
  builder.tensor("w", 0, {3, 2}, data).tensor("s", 0, {}, Bytes().f32(9).str());
  const GgufFile file = open(builder);
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.alignment(), 32u);
  EXPECT_EQ(file.view("w").shape(), (Shape{2, 3}));
  std::vector<float> row(3);
  read_row(file.view("w"), 1, row.data());
  EXPECT_EQ(row, (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(file.view("s").rank(), 0u);
  EXPECT_EQ(to_f32(file.view("s")), std::vector<float>{9});
  EXPECT_EQ(file.find("nothing"), nullptr);
  expect_bad_input({"\"nothing\"", "x.gguf"}, [&] { file.view("nothing"); });
}

TEST_F(GgufTest, VersionTwo) {
  GgufBuilder builder;
  builder.version = 2;
  builder.u32("k", 5).tensor("w", 0, {1}, Bytes().f32(1).str());
  const GgufFile file = open(builder);
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.need_int("k"), 5);
}

TEST_F(GgufTest, IntegersOfEveryWidth) {
  GgufBuilder builder;
  builder.entry("u8", GgufType::kU8, Bytes().u8(200));
  builder.entry("i8", GgufType::kI8, Bytes().put<int8_t>(-3));
  builder.entry("u16", GgufType::kU16, Bytes().u16(60000));
  builder.entry("i16", GgufType::kI16, Bytes().put<int16_t>(-30000));
  builder.entry("u32", GgufType::kU32, Bytes().u32(4000000000u));
  builder.entry("i32", GgufType::kI32, Bytes().put<int32_t>(-7));
  builder.entry("u64", GgufType::kU64, Bytes().u64(1ull << 40));
  builder.entry("i64", GgufType::kI64, Bytes().put<int64_t>(-(1ll << 40)));
  builder.entry("huge", GgufType::kU64, Bytes().u64(1ull << 63));
  const GgufFile file = open(builder);
  EXPECT_EQ(file.get_int("u8"), 200);
  EXPECT_EQ(file.get_int("i8"), -3);
  EXPECT_EQ(file.get_int("u16"), 60000);
  EXPECT_EQ(file.get_int("i16"), -30000);
  EXPECT_EQ(file.get_int("u32"), 4000000000);
  EXPECT_EQ(file.get_int("i32"), -7);
  EXPECT_EQ(file.get_int("u64"), int64_t{1} << 40);
  EXPECT_EQ(file.get_int("i64"), -(int64_t{1} << 40));
  EXPECT_EQ(file.get_float("i32"), -7.0);
  expect_bad_input({"less than 2^63", "\"huge\"", "x.gguf"}, [&] { file.get_int("huge"); });
}

TEST_F(GgufTest, OtherValues) {
  GgufBuilder builder;
  builder.text("s", "grüße").text("empty", "");
  builder.entry("f", GgufType::kF32, Bytes().f32(1.5f));
  builder.entry("d", GgufType::kF64, Bytes().put(1e-300));
  builder.entry("yes", GgufType::kBool, Bytes().u8(1)).entry("no", GgufType::kBool, Bytes().u8(0));
  const GgufFile file = open(builder);
  EXPECT_EQ(file.get_string("s"), "grüße");
  EXPECT_EQ(file.get_string("empty"), "");
  EXPECT_EQ(file.get_float("f"), 1.5);
  EXPECT_EQ(file.get_float("d"), 1e-300);
  EXPECT_EQ(file.get_bool("yes"), true);
  EXPECT_EQ(file.get_bool("no"), false);
  ASSERT_EQ(file.metadata().size(), 6u);
  EXPECT_EQ(file.metadata()[0].key, "s");
  EXPECT_TRUE(file.has("d"));
  EXPECT_FALSE(file.has("e"));
}

TEST_F(GgufTest, Arrays) {
  GgufBuilder builder;
  builder.texts("s", {"a", "", "ccc"});
  builder.array("i", GgufType::kI32, 2, Bytes().put<int32_t>(-1).put<int32_t>(2));
  builder.array("u", GgufType::kU16, 2, Bytes().u16(1).u16(65535));
  builder.array("f", GgufType::kF32, 2, Bytes().f32(0.5f).f32(-1));
  builder.array("b", GgufType::kBool, 3, Bytes().u8(1).u8(0).u8(1));
  builder.array("none", GgufType::kF32, 0, Bytes());
  const GgufFile file = open(builder);
  EXPECT_EQ(*file.get_strings("s"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(*file.get_ints("i"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(*file.get_i32s("i"), (std::vector<int32_t>{-1, 2}));
  EXPECT_EQ(*file.get_ints("u"), (std::vector<int64_t>{1, 65535}));
  EXPECT_EQ(*file.get_floats("f"), (std::vector<float>{0.5f, -1}));
  EXPECT_EQ(*file.get_bools("b"), (std::vector<bool>{true, false, true}));
  EXPECT_TRUE(file.get_floats("none")->empty());
  expect_bad_input({"array of integers", "array of f32"}, [&] { file.get_ints("none"); });
  EXPECT_EQ(file.entry("s")->count, 3u);
  EXPECT_EQ(file.entry("s")->element_type, GgufType::kString);
  // Strings are views into the mapping, not copies.
  const auto strings = *file.get_strings("s");
  const auto stored = file.entry("s")->bytes;
  EXPECT_EQ(static_cast<const void*>(strings[0].data()), stored.data() + 8);
}

TEST_F(GgufTest, AbsentKeys) {
  GgufBuilder builder;
  builder.u32("k", 1);
  const GgufFile file = open(builder);
  EXPECT_FALSE(file.get_int("x"));
  EXPECT_FALSE(file.get_string("x"));
  EXPECT_FALSE(file.get_float("x"));
  EXPECT_FALSE(file.get_bool("x"));
  EXPECT_FALSE(file.get_strings("x"));
  EXPECT_FALSE(file.get_ints("x"));
  EXPECT_FALSE(file.get_i32s("x"));
  EXPECT_FALSE(file.get_floats("x"));
  EXPECT_FALSE(file.get_bools("x"));
  expect_bad_input({"the key \"x\"", "x.gguf"}, [&] { file.need_int("x"); });
  expect_bad_input({"the key \"x\""}, [&] { file.need_string("x"); });
  expect_bad_input({"the key \"x\""}, [&] { file.need_float("x"); });
  expect_bad_input({"the key \"x\""}, [&] { file.need_strings("x"); });
}

TEST_F(GgufTest, WrongTypesNameBoth) {
  GgufBuilder builder;
  builder.u32("k", 1).text("s", "1");
  const GgufFile file = open(builder);
  expect_bad_input({"expected string, got u32", "\"k\"", "x.gguf"}, [&] { file.get_string("k"); });
  expect_bad_input({"expected an integer, got string"}, [&] { file.get_int("s"); });
  expect_bad_input({"expected a number, got string"}, [&] { file.get_float("s"); });
  expect_bad_input({"expected bool, got u32"}, [&] { file.get_bool("k"); });
  expect_bad_input({"expected an array, got u32"}, [&] { file.get_ints("k"); });
}

// The table of types must agree with the one that the kernels dequantise by.
TEST(GgmlTypes, AgreeWithTheTypesOfTensors) {
  int readable = 0;
  for (const GgmlType& type : ggml_types()) {
    if (!type.dtype) continue;
    ++readable;
    EXPECT_EQ(static_cast<int>(type.block_elements), info(*type.dtype).block_elements) << type.name;
    EXPECT_EQ(static_cast<int>(type.block_bytes), info(*type.dtype).block_bytes) << type.name;
    EXPECT_EQ(find_ggml_type(type.id), &type);
  }
  EXPECT_EQ(readable, 18);  // F32 F16 BF16 F64, I8-I64, Q4_0-Q8_0, Q2_K-Q6_K
}

TEST_F(GgufTest, StorageOutlivesTheFile) {
  GgufBuilder builder;
  builder.tensor("w", 0, {2}, Bytes().f32(1).f32(2).str());
  std::shared_ptr<const void> storage;
  TensorView view;
  {
    const GgufFile file = open(builder);
    view = file.view("w");
    storage = file.storage();
  }
  EXPECT_EQ(to_f32(view), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace mainstem
