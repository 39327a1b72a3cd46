#include "mainstem/safetensors.h"

#include <string>
#include <vector>

#include "io/test_files.h"

namespace mainstem {
namespace {

using test::expect_bad_input;
using test::expect_error;

Tensor floats(Shape shape, std::vector<float> values) {
  return Tensor::from_f32(std::move(shape), values);
}

TEST(Safetensors, ReadsWhatTheFormatDescribes) {
  const std::string header = R"({"__metadata__":{"format":"pt","ü":"\n"},)"
                             R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[2,10]},)"
                             R"("h":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})";
  const std::string data = test::Bytes().u16(0x3F80).f32(1.5f).f32(-2).str();
  const test::TempDir dir;
  const auto path = test::write_file(dir / "a.safetensors", test::safetensors(header, data));
  const SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "h");
  EXPECT_EQ(file.tensors()[0].dtype_name, "BF16");
  EXPECT_EQ(file.tensors()[0].file, path.string());
  EXPECT_EQ(file.tensors()[1].bytes, 8u);
  EXPECT_EQ(to_f32(file.view("h")), std::vector<float>{1});
  EXPECT_EQ(to_f32(file.view("w")), (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("ü"), "\n");
  EXPECT_EQ(file.find("nothing"), nullptr);
  expect_bad_input({"a tensor \"nothing\"", path.string()}, [&] { file.view("nothing"); });
  EXPECT_TRUE(file.warnings().empty());
}

TEST(Safetensors, StorageOutlivesTheFile) {
  const test::TempDir dir;
  const Tensor values = floats({2}, {3, 4});
  write_safetensors(dir / "a.safetensors", std::vector<NamedTensor>{{"x", values.view()}});
  std::shared_ptr<const void> storage;
  TensorView view;
  {
    const auto file = SafetensorsFile::open(dir / "a.safetensors");
    view = file.view("x");
    storage = file.storage();
  }
  EXPECT_EQ(to_f32(view), (std::vector<float>{3, 4}));
}

// What the official writer (Python package 0.8.0) makes of the same tensors, byte for byte.
TEST(Safetensors, WritesTheBytesOfTheOfficialWriter) {
  const Tensor f32 = floats({2}, {1, 2});
  const Tensor i64 = Tensor::from_i64({1}, std::vector<int64_t>{7});
  Tensor u8(DType::kU8, {3});
  Tensor bf16(DType::kBF16, {1});
  Tensor f16(DType::kF16, {0, 4});
  Tensor flag(DType::kBool, {});
  const std::vector<NamedTensor> tensors = {
      {"u", u8.view()},   {"é\"", f32.view()}, {"b", f32.view()},    {"i", i64.view()},
      {"h", bf16.view()}, {"g", f16.view()},   {"flag", flag.view()}};
  const test::TempDir dir;
  write_safetensors(dir / "a.safetensors", tensors, {{"format", "pt"}});
  std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"i\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
      "\"é\\\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]},"
      "\"h\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[24,26]},"
      "\"g\":{\"dtype\":\"F16\",\"shape\":[0,4],\"data_offsets\":[26,26]},"
      "\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[26,29]},"
      "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[29,30]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string data =
      test::Bytes().u64(7).f32(1).f32(2).f32(1).f32(2).raw(std::string(6, '\0')).str();
  EXPECT_EQ(test::read_file(dir / "a.safetensors"), test::safetensors(header, data));
  EXPECT_EQ(dir.file_count(), 1u);
}

TEST(Safetensors, EmptyFileRoundTrip) {
  const test::TempDir dir;
  write_safetensors(dir / "a.safetensors", {});
  EXPECT_EQ(test::read_file(dir / "a.safetensors"), test::safetensors("{}      "));
  const auto file = SafetensorsFile::open(dir / "a.safetensors");
  EXPECT_TRUE(file.tensors().empty());
}

TEST(Safetensors, WriterRefusesWhatTheFormatCannotHold) {
  const test::TempDir dir;
  const Tensor values = floats({2}, {1, 2});
  const Tensor quantised(DType::kQ8_0, {32});
  const auto write = [&](std::vector<NamedTensor> tensors,
                         std::map<std::string, std::string> metadata = {}) {
    write_safetensors(dir / "a.safetensors", tensors, metadata);
  };
  expect_error(ErrorCode::kUsage, {"\"x\" twice", "a.safetensors"},
               [&] { write({{"x", values.view()}, {"x", values.view()}}); });
  expect_error(ErrorCode::kUsage, {"q8_0", "\"x\""}, [&] { write({{"x", quantised.view()}}); });
  expect_error(ErrorCode::kUsage, {"__metadata__"},
               [&] { write({{"__metadata__", values.view()}}); });
  expect_error(ErrorCode::kUsage, {"UTF-8"}, [&] { write({{"\xff", values.view()}}); });
  expect_error(ErrorCode::kUsage, {"UTF-8"}, [&] { write({}, {{"k", "\xff"}}); });
  EXPECT_EQ(dir.file_count(), 0u);
}

TEST(SafetensorsWriter, StreamedFileIsTheSame) {
  const test::TempDir dir;
  const Tensor a = floats({2, 2}, {1, 2, 3, 4});
  const Tensor b = Tensor::from_i64({3}, std::vector<int64_t>{5, 6, 7});
  write_safetensors(dir / "whole", std::vector<NamedTensor>{{"a", a.view()}, {"b", b.view()}},
                    {{"k", "v"}});
  const std::vector<TensorPlan> plan = {{"a", DType::kF32, {2, 2}}, {"b", DType::kI64, {3}}};
  SafetensorsWriter writer(dir / "streamed", plan, {{"k", "v"}});
  writer.write("a", a.view());
  writer.write("b", b.view());
  EXPECT_FALSE(std::filesystem::exists(dir / "streamed"));
  writer.finish();
  EXPECT_EQ(test::read_file(dir / "streamed"), test::read_file(dir / "whole"));
}

TEST(SafetensorsWriter, HoldsTheCallerToThePlan) {
  const test::TempDir dir;
  const Tensor a = floats({2}, {1, 2});
  const std::vector<TensorPlan> plan = {{"a", DType::kF32, {2}}, {"b", DType::kF32, {2}}};
  {
    SafetensorsWriter writer(dir / "f", plan);
    expect_error(ErrorCode::kUsage, {"a planned name", "\"c\""},
                 [&] { writer.write("c", a.view()); });
    const Tensor other = floats({1, 2}, {1, 2});
    expect_error(ErrorCode::kUsage, {"f32 [2]", "f32 [1, 2]"},
                 [&] { writer.write("a", other.view()); });
    writer.write("a", a.view());
    expect_error(ErrorCode::kUsage, {"one write"}, [&] { writer.write("a", a.view()); });
    expect_error(ErrorCode::kUsage, {"\"b\" missing"}, [&] { writer.finish(); });
  }
  EXPECT_EQ(dir.file_count(), 0u);
}

}  // namespace
}  // namespace mainstem
