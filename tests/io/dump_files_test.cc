// Dumps in the formats of arrays, and how a format is told.

#include <string>
#include <vector>

#include "io/dump_values.h"
#include "io/zip_builder.h"
#include "mainstem/npz.h"
#include "mainstem/safetensors.h"

namespace mainstem {
namespace {

using test::expect_bad_input;

const Tensor kMatrix = Tensor::from_f32({2, 2}, std::vector<float>{1, 2, 3, 4});
const Tensor kIds = Tensor::from_i64({3}, std::vector<int64_t>{7, 8, 9});

void expect_both(const Dump& dump) {
  ASSERT_EQ(dump.tensors().size(), 2u);
  ASSERT_NE(dump.find("blocks.0.q"), nullptr);
  ASSERT_NE(dump.find("tokens"), nullptr);
  EXPECT_EQ(dump.find("other"), nullptr);
  const Tensor matrix = dump.read(*dump.find("blocks.0.q"));
  EXPECT_EQ(matrix.shape(), kMatrix.shape());
  EXPECT_EQ(to_f32(matrix.view()), to_f32(kMatrix.view()));
  const Tensor ids = dump.read(*dump.find("tokens"));
  EXPECT_EQ(ids.dtype(), DType::kI64);
  EXPECT_EQ(to_f32(ids.view()), to_f32(kIds.view()));
}

TEST(DumpFiles, SafetensorsUnderAnyName) {
  const test::TempDir folder;
  write_safetensors(folder / "x.bin", std::vector<NamedTensor>{{"blocks.0.q", kMatrix.view()},
                                                               {"tokens", kIds.view()}});
  const Dump dump = Dump::open(folder / "x.bin");
  EXPECT_EQ(dump.format(), DumpFormat::kSafetensors);
  expect_both(dump);
}

TEST(DumpFiles, SafetensorsTypesWithoutValuesAreLeftOut) {
  const Dump dump =
      Dump::from_bytes(test::as_bytes(test::safetensors_with(
                           R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", 8)),
                       "x");
  EXPECT_TRUE(dump.tensors().empty());
  ASSERT_EQ(dump.left_out().size(), 1u);
  EXPECT_THAT(dump.left_out()[0], testing::HasSubstr("\"C64\""));
}

TEST(DumpFiles, Npz) {
  const test::TempDir folder;
  write_npz(folder / "x.pt",
            std::vector<NamedTensor>{{"blocks.0.q", kMatrix.view()}, {"tokens", kIds.view()}});
  const Dump dump = Dump::open(folder / "x.pt");
  EXPECT_EQ(dump.format(), DumpFormat::kNpz);
  expect_both(dump);
}

TEST(DumpFiles, TensorsInMemoryAreViewed) {
  std::vector<float> values{1, 2, 3, 4};
  const std::vector<NamedTensor> tensors{
      {"blocks.0.q", TensorView(DType::kF32, {2, 2}, values.data())}, {"tokens", kIds.view()}};
  const Dump dump = Dump::from_tensors(tensors, "tensors");
  EXPECT_EQ(dump.format(), DumpFormat::kTensors);
  EXPECT_EQ(dump.path(), "tensors");
  expect_both(dump);
  values[3] = 7;
  EXPECT_EQ(to_f32(dump.read(dump.tensors()[0]).view()), values);
}

TEST(DumpFiles, TensorsInMemoryMayShareAName) {
  const std::vector<NamedTensor> tensors{{"q", kMatrix.view()}, {"q", kIds.view()}};
  const Dump dump = Dump::from_tensors(tensors, "tensors");
  ASSERT_EQ(dump.tensors().size(), 2u);
  EXPECT_EQ(dump.tensors()[1].occurrence, 1);
  EXPECT_EQ(dump.read(dump.tensors()[1]).dtype(), DType::kI64);
}

std::string npy_with(const std::string& descr) {
  const std::string head = "{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }\n";
  return test::Bytes()
      .raw({"\x93NUMPY\x01\x00", 8})
      .u16(static_cast<uint16_t>(head.size()))
      .raw(head)
      .raw("12345678")
      .str();
}

TEST(DumpFiles, NpzCompressedAndWithOtherTypes) {
  const std::string content = test::zip_archive(
      {{.name = "a.npy", .content = test::npy_of({1, 2}), .compress = true},
       {.name = "text.npy", .content = npy_with("'<U2'")},
       {.name = "object.npy", .content = npy_with("'|O'")},
       {.name = "fields.npy", .content = npy_with("[('a', '<f4'), ('b', '<i4')]")},
       {.name = "note.txt", .content = "x"}});
  const Dump dump = Dump::from_bytes(test::as_bytes(content), "x.npz");
  ASSERT_EQ(dump.tensors().size(), 1u);
  EXPECT_EQ(to_f32(dump.read(dump.tensors()[0]).view()), (std::vector<float>{1, 2}));
  EXPECT_EQ(dump.left_out().size(), 3u);
  EXPECT_THAT(dump.left_out()[0], testing::HasSubstr("\"<U2\""));
}

TEST(DumpFiles, NpzWithAShortArrayIsAnErrorAtOnce) {
  std::string array = test::npy_of({1, 2});
  array.resize(array.size() - 1);
  const std::string content = test::zip_archive({{.name = "a.npy", .content = array}});
  expect_bad_input({"npy data", "\"a\"", "x.npz"},
                   [&] { Dump::from_bytes(test::as_bytes(content), "x.npz"); });
}

TEST(DumpFiles, NpyFolder) {
  const test::TempDir folder;
  std::filesystem::create_directories(folder / "blocks/0");
  write_npy(folder / "blocks/0/q.npy", kMatrix.view());
  write_npy(folder / "tokens.npy", kIds.view());
  test::write_file(folder / "readme.txt", "x");
  const Dump dump = Dump::open(folder.path());
  EXPECT_EQ(dump.format(), DumpFormat::kNpyFolder);
  expect_both(dump);
  // Names with dots mean the same.
  const test::TempDir flat;
  write_npy(flat / "blocks.0.q.npy", kMatrix.view());
  write_npy(flat / "tokens.npy", kIds.view());
  expect_both(Dump::open(flat.path()));
  write_npy(folder / "tokens.npy", kMatrix.view());
  expect_bad_input({"another one", "tokens.npy"}, [&] { dump.read(*dump.find("tokens")); });
}

TEST(DumpFiles, NpyFolderWithADamagedFileOrNone) {
  const test::TempDir folder;
  expect_bad_input({".npy files", "none of them"}, [&] { Dump::open(folder.path()); });
  std::string content = test::npy_of({1, 2});
  content.resize(content.size() - 3);
  test::write_file(folder / "a.npy", content);
  expect_bad_input({"truncated", "a.npy"}, [&] { Dump::open(folder.path()); });
}

TEST(DumpFiles, LoneNpy) {
  const test::TempDir folder;
  write_npy(folder / "blocks.0.q.npy", kMatrix.view());
  const Dump dump = Dump::open(folder / "blocks.0.q.npy");
  EXPECT_EQ(dump.format(), DumpFormat::kNpy);
  ASSERT_NE(dump.find("blocks.0.q"), nullptr);
  EXPECT_EQ(to_f32(dump.read(dump.tensors()[0]).view()), to_f32(kMatrix.view()));
}

TEST(DumpFiles, OtherFilesAreRefusedByWhatTheyAre) {
  const auto refuse = [](std::string_view content, std::initializer_list<std::string_view> parts) {
    expect_bad_input(parts, [&] { Dump::from_bytes(test::as_bytes(content), "x"); });
  };
  refuse("", {"an empty file"});
  refuse("GGUF\3\0\0\0", {"a GGUF file", "activations"});
  refuse("\x89HDF\r\n", {"HDF5"});
  refuse({"\xFF\xFEg\0g\0", 6}, {"UTF-16", "UTF-8"});
  refuse(std::string(257, 'a') + "ustar", {"a tar archive"});
  refuse("hello", {"hello", "safetensors, npz"});
  refuse("version https://git-lfs.github.com/spec/v1", {"Git LFS"});
  refuse("[1, 2]", {"dump"});
  refuse("{\"a\": {\"b\": 1}}", {"model debugger", "other keys"});
  const std::string other = test::zip_archive({{.name = "word/document.xml", .content = "x"}});
  refuse(other, {"neither", "word/document.xml"});
  expect_bad_input({"No such file"}, [] { Dump::open("/nowhere/x.pt"); });
}

}  // namespace
}  // namespace mainstem
