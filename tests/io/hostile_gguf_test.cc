// Odd and hostile GGUF files. Each test is named after a public report; the comments give its
// source.

#include <cstdint>
#include <deque>
#include <string>

#include "io/gguf_builder.h"
#include "mainstem/gguf.h"

namespace mainstem {
namespace {

using test::Bytes;
using test::expect_bad_input;
using test::GgufBuilder;

constexpr uint32_t kF32 = 0, kQ8_0 = 8, kI8 = 24;

GgufFile parse(const std::string& content, const GgufOptions& options = {}) {
  // A file views its bytes; these live until the program ends.
  static std::deque<std::string> kept;
  return GgufFile::from_bytes(test::as_bytes(kept.emplace_back(content)), "x.gguf", options);
}

std::string bytes(size_t count) { return std::string(count, '\1'); }

GgufBuilder two_tensors() {
  GgufBuilder file;
  file.text("general.architecture", "llama").u32("llama.block_count", 2);
  file.tensor("a", kF32, {3, 2}, bytes(24)).tensor("b", kQ8_0, {64}, bytes(68));
  return file;
}

TEST(HostileGguf, F1_LfsPointerIsRecognised) {
  expect_bad_input({"Git LFS pointer", "x.gguf"},
                   [] { parse("version https://git-lfs.github.com/spec/v1\n"); });
}

TEST(HostileGguf, F1_OtherContentIsNamed) {
  expect_bad_input({"magic", "\"GGML\""}, [] { parse("GGML\3\0\0\0"); });
  expect_bad_input({"magic"}, [] { parse(""); });
  GgufBuilder file = two_tensors();
  file.version = 1;
  expect_bad_input({"version: expected 2 or 3, got 1"}, [&] { parse(file.build()); });
  file.version = 4;
  expect_bad_input({"got 4"}, [&] { parse(file.build()); });
}

TEST(HostileGguf, BigEndianHasItsOwnMessage) {
  GgufBuilder file = two_tensors();
  file.version = 3u << 24;
  expect_bad_input({"byte order", "big-endian"}, [&] { parse(file.build()); });
}

TEST(HostileGguf, F3_EveryTruncationIsAnError) {
  GgufBuilder file = two_tensors();
  file.pad_end = false;
  const std::string content = file.build();
  ASSERT_NO_THROW(parse(content));
  for (size_t size = 0; size < content.size(); ++size) {
    expect_bad_input({"x.gguf"}, [&] { parse(content.substr(0, size)); });
  }
}

TEST(HostileGguf, F3_TruncatedDataSaysHowMuchIsMissing) {
  GgufBuilder file = two_tensors();
  file.pad_end = false;
  std::string content = file.build();
  content.resize(content.size() - 5);
  expect_bad_input({"5 bytes are missing", "truncated"}, [&] { parse(content); });
}

TEST(HostileGguf, F4_TrailingBytesAreAnErrorOrAWarning) {
  const std::string content = two_tensors().build() + "xyz";
  expect_bad_input({"fully covered", "3 more"}, [&] { parse(content); });
  GgufOptions options;
  options.allow_trailing = true;
  ASSERT_EQ(parse(content, options).warnings().size(), 1u);
}

TEST(HostileGguf, F4_PaddingAtTheEndIsNoTrailing) {
  GgufBuilder file = two_tensors();
  EXPECT_NO_THROW(parse(file.build()));
  file.pad_end = false;
  EXPECT_NO_THROW(parse(file.build()));
}

// ohdearquant/lattice#752, ikawrakow/ik_llama.cpp#2437 (F20): regions must follow each other.
TEST(HostileGguf, F6_F20_OverlapsAndHoles) {
  const auto with_offset = [](uint64_t offset, size_t data) {
    GgufBuilder file;
    file.tensor_info("a", kI8, {40}, 0).tensor_info("b", kI8, {8}, offset).data(bytes(data));
    return file.build();
  };
  EXPECT_NO_THROW(parse(with_offset(64, 72)));
  expect_bad_input({"\"b\"", "expected 64 (after \"a\")", "got 32, an overlap"},
                   [&] { parse(with_offset(32, 72)); });
  expect_bad_input({"an overlap"}, [&] { parse(with_offset(0, 40)); });
  expect_bad_input({"got 96, a hole"}, [&] { parse(with_offset(96, 104)); });
}

TEST(HostileGguf, F6_AnyOrderOfTheInfos) {
  GgufBuilder file;
  file.tensor_info("late", kI8, {8}, 32).tensor_info("early", kI8, {4}, 0);
  file.data("abcd" + std::string(28, '\0') + "12345678");
  const GgufFile read = parse(file.build());
  EXPECT_EQ(read.tensors()[0].name, "late");
  EXPECT_EQ(std::to_integer<char>(read.view("late").data()[0]), '1');
  EXPECT_EQ(std::to_integer<char>(read.view("early").data()[0]), 'a');
}

TEST(HostileGguf, F7_DuplicateKeysAndNames) {
  GgufBuilder keys;
  keys.u32("a", 1).u32("b", 2).u32("a", 1);
  expect_bad_input({"\"a\" twice"}, [&] { parse(keys.build()); });
  GgufBuilder names;
  names.tensor("t", kI8, {4}, "abcd").tensor("t", kI8, {4}, "abcd");
  expect_bad_input({"\"t\" twice"}, [&] { parse(names.build()); });
}

// ggml-org/ggml#709, ggml-org/llama.cpp#25378, CVE-2024-21802.
TEST(HostileGguf, F12_DimensionCount) {
  for (const uint32_t count : {5u, 9u, UINT32_MAX}) {
    GgufBuilder file;
    file.tensor_info("a", kF32, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, count).data(bytes(64));
    expect_bad_input({"dimension count", "at most 4", std::to_string(count), "\"a\""},
                     [&] { parse(file.build()); });
  }
}

TEST(HostileGguf, F12_TensorTypeOutsideTheTable) {
  for (const uint32_t type : {4u, 5u, 31u, 33u, 36u, 38u, 1000u, UINT32_MAX}) {
    GgufBuilder file;
    file.tensor_info("a", type, {32}, 0).data(bytes(64));
    expect_bad_input({"tensor type", std::to_string(type), "\"a\""}, [&] { parse(file.build()); });
  }
}

TEST(HostileGguf, F12_KnownTypeThatCannotBeRead) {
  GgufBuilder file;
  file.tensor("a", 23, {256, 2}, bytes(272)).tensor("b", kF32, {1}, bytes(4));
  const GgufFile read = parse(file.build());
  EXPECT_FALSE(read.tensors()[0].readable());
  EXPECT_EQ(read.tensors()[0].bytes, 272u);
  expect_bad_input({"IQ4_XS", "\"a\"", "x.gguf"}, [&] { read.view("a"); });
  EXPECT_EQ(read.view("b").count(), 1);
}

TEST(HostileGguf, F12_CountsBeyondTheFile) {
  for (const uint64_t count : {uint64_t{1000}, uint64_t{1} << 40, UINT64_MAX}) {
    GgufBuilder tensors = two_tensors();
    tensors.tensor_count = count;
    expect_bad_input({"tensor count", std::to_string(count)}, [&] { parse(tensors.build()); });
    GgufBuilder entries = two_tensors();
    entries.entry_count = count;
    expect_bad_input({"metadata count", std::to_string(count)}, [&] { parse(entries.build()); });
  }
}

TEST(HostileGguf, F12_StringsBeyondTheFile) {
  for (const uint64_t length : {uint64_t{1000}, uint64_t{1} << 62, UINT64_MAX}) {
    GgufBuilder value;
    value.entry("k", GgufType::kString, Bytes().u64(length).raw("abc"));
    expect_bad_input({"string", std::to_string(length), "\"k\""}, [&] { parse(value.build()); });
    GgufBuilder element;
    element.array("k", GgufType::kString, 2, Bytes().string("ok").u64(length).raw("abc"));
    expect_bad_input({"string", std::to_string(length)}, [&] { parse(element.build()); });
  }
}

TEST(HostileGguf, F12_NamesAndKeys) {
  GgufBuilder long_name;
  long_name.tensor(std::string(64, 'n'), kI8, {4}, "abcd");
  EXPECT_NO_THROW(parse(long_name.build()));
  long_name.tensor(std::string(65, 'n'), kI8, {4}, "abcd");
  expect_bad_input({"tensor name length", "65"}, [&] { parse(long_name.build()); });
  GgufBuilder empty_name;
  empty_name.tensor("", kI8, {64}, bytes(64));
  expect_bad_input({"tensor name length"}, [&] { parse(empty_name.build()); });
  for (const std::string& key : {std::string(), std::string(65536, 'k')}) {
    GgufBuilder file;
    file.text(key, "value");
    expect_bad_input({"key length"}, [&] { parse(file.build()); });
  }
  for (const std::string_view key : {"a b", "a\n", "\xc3\xa9"}) {
    GgufBuilder file;
    file.text(key, "value");
    expect_bad_input({"printable ASCII"}, [&] { parse(file.build()); });
  }
}

TEST(HostileGguf, F12_ValueTypes) {
  for (const uint32_t type : {13u, 255u, UINT32_MAX}) {
    GgufBuilder file;
    file.entry("k", type, bytes(8));
    expect_bad_input({"value type", std::to_string(type), "\"k\""}, [&] { parse(file.build()); });
  }
  GgufBuilder element;
  element.entry("k", 9, Bytes().u32(13).u64(1).raw(bytes(8)).str());
  expect_bad_input({"array element type", "13"}, [&] { parse(element.build()); });
  GgufBuilder boolean;
  boolean.entry("k", GgufType::kBool, Bytes().u8(2).raw(bytes(8)));
  expect_bad_input({"bool: expected 0 or 1, got 2"}, [&] { parse(boolean.build()); });
  GgufBuilder booleans;
  booleans.array("k", GgufType::kBool, 3, Bytes().u8(0).u8(1).u8(7));
  expect_bad_input({"bool: expected 0 or 1, got 7"}, [&] { parse(booleans.build()); });
}

// ggml-org/llama.cpp#14595, #18674, #26245; CVE-2025-53630 and its bypass CVE-2026-27940.
TEST(HostileGguf, F13_SizesThatWrap) {
  const auto reject = [](uint32_t type, std::vector<uint64_t> dims) {
    GgufBuilder file;
    file.tensor_info("a", type, std::move(dims), 0).data(bytes(64));
    expect_bad_input({"\"a\""}, [&] { parse(file.build()); });
  };
  reject(kF32, {(uint64_t{1} << 63) - 1, 2, 1, 1});
  reject(kF32, {uint64_t{1} << 63});
  reject(kF32, {UINT64_MAX});
  reject(kF32, {uint64_t{1} << 62, 4});
  reject(kF32, {uint64_t{1} << 62});
  reject(kF32, {uint64_t{1} << 32, uint64_t{1} << 32});
  reject(kQ8_0, {uint64_t{1} << 58, 32});
}

TEST(HostileGguf, F13_OffsetsThatWrap) {
  for (const uint64_t offset : {UINT64_MAX - 31, uint64_t{1} << 63, uint64_t{4096}}) {
    GgufBuilder file;
    file.tensor_info("a", kI8, {64}, offset).data(bytes(64));
    expect_bad_input({"\"a\"", "a hole"}, [&] { parse(file.build()); });
  }
  GgufBuilder file;
  file.tensor_info("a", kI8, {(uint64_t{1} << 63) - 1}, 0);
  file.tensor_info("b", kI8, {(uint64_t{1} << 63) - 1}, uint64_t{1} << 63).data(bytes(64));
  expect_bad_input({"x.gguf"}, [&] { parse(file.build()); });
}

// ggml-org/llama.cpp#27188: 43 bytes with an array of 2^63 elements; huggingface.js#2028.
TEST(HostileGguf, F14_ArrayLengthBeyondTheFile) {
  for (const uint64_t count : {uint64_t{1} << 63, UINT64_MAX, uint64_t{1} << 61, uint64_t{9}}) {
    for (const GgufType type : {GgufType::kU8, GgufType::kF64, GgufType::kString}) {
      GgufBuilder file;
      file.array("k", type, count, Bytes().raw(bytes(8)));
      expect_bad_input({"array length", std::to_string(count), "\"k\""},
                       [&] { parse(file.build()); });
    }
  }
}

TEST(HostileGguf, F14_NestedArraysAreRefused) {
  GgufBuilder file;
  file.array("k", GgufType::kArray, 1, Bytes().u32(9).u64(1).u32(0).u64(1).u8(1));
  expect_bad_input({"nested arrays are refused", "\"k\""}, [&] { parse(file.build()); });
}

// ggml-org/ggml#1516, ggml-org/llama.cpp#26318.
TEST(HostileGguf, F15_Alignment) {
  const auto with_alignment = [](uint32_t value, uint64_t padding) {
    GgufBuilder file;
    file.alignment = padding;
    file.u32("general.alignment", value);
    file.tensor("a", kI8, {4}, "abcd").tensor("b", kI8, {4}, "efgh");
    return file.build();
  };
  for (const uint32_t value : {8u, 32u, 64u, 4096u, 1u << 20}) {
    const GgufFile file = parse(with_alignment(value, value));
    EXPECT_EQ(file.alignment(), value);
    EXPECT_EQ(std::to_integer<char>(file.view("b").data()[0]), 'e');
  }
  for (const uint32_t value : {0u, 1u, 3u, 24u, 33u, 1u << 21, 1u << 30, 1u << 31, UINT32_MAX}) {
    expect_bad_input({"alignment", "power of two", std::to_string(value)},
                     [&] { parse(with_alignment(value, 32)); });
  }
  GgufBuilder wrong_type;
  wrong_type.entry("general.alignment", GgufType::kU64, Bytes().u64(32));
  expect_bad_input({"general.alignment", "u32", "u64"}, [&] { parse(wrong_type.build()); });
}

TEST(HostileGguf, F15_OffsetsAreMultiplesOfTheAlignment) {
  GgufBuilder file;
  file.tensor_info("a", kI8, {4}, 0).tensor_info("b", kI8, {4}, 8).data(bytes(64));
  expect_bad_input({"tensor offset", "a multiple of 32", "got 8", "\"b\""},
                   [&] { parse(file.build()); });
}

// ggml-org/llama.cpp#26690, #20735: arrays of another type read as float or int32.
TEST(HostileGguf, F16_ArraysAreReadByTheirOwnType) {
  GgufBuilder file;
  file.texts("tokens", {"a", "b"});
  file.array("scores", GgufType::kU8, 2, Bytes().u8(1).u8(2));
  file.array("token_type", GgufType::kF32, 2, Bytes().f32(1).f32(2));
  const GgufFile read = parse(file.build());
  expect_bad_input({"array of f32", "array of u8", "\"scores\"", "x.gguf"},
                   [&] { read.get_floats("scores"); });
  expect_bad_input({"array of i32 or u32", "array of f32"}, [&] { read.get_i32s("token_type"); });
  expect_bad_input({"array of i32 or u32", "array of u8"}, [&] { read.get_i32s("scores"); });
  expect_bad_input({"array of integers", "array of f32"}, [&] { read.get_ints("token_type"); });
  expect_bad_input({"array of string", "array of u8"}, [&] { read.get_strings("scores"); });
  expect_bad_input({"array of bool"}, [&] { read.get_bools("scores"); });
  expect_bad_input({"an integer", "array of string"}, [&] { read.get_int("tokens"); });
  expect_bad_input({"string", "array of string"}, [&] { read.get_string("tokens"); });
}

// CVE-2026-7482: a consumer that trusts offset and size.
TEST(HostileGguf, F19_DataBeyondTheFile) {
  GgufBuilder file;
  file.tensor_info("a", kF32, {1000}, 0).data(bytes(64));
  expect_bad_input({"bytes are missing"}, [&] { parse(file.build()); });
}

TEST(HostileGguf, RowsFillWholeBlocks) {
  GgufBuilder file;
  file.tensor_info("a", kQ8_0, {33}, 0).data(bytes(96));
  expect_bad_input({"row length", "a multiple of 32", "got 33"}, [&] { parse(file.build()); });
  GgufBuilder scalar;
  scalar.tensor_info("a", kQ8_0, {}, 0).data(bytes(96));
  expect_bad_input({"row length"}, [&] { parse(scalar.build()); });
}

TEST(HostileGguf, EmptyTensorsAndFilesWithoutTensors) {
  GgufBuilder empty;
  empty.tensor("none", kF32, {0}, "").tensor("some", kF32, {1}, bytes(4));
  EXPECT_EQ(parse(empty.build()).view("none").count(), 0);
  GgufBuilder metadata;
  metadata.u32("k", 1);
  const GgufFile without = parse(metadata.build());
  EXPECT_TRUE(without.tensors().empty());
  std::string padded = metadata.build();
  padded.resize((padded.size() + 31) / 32 * 32);
  EXPECT_NO_THROW(parse(padded));
  expect_bad_input({"1 more"}, [&] { parse(padded + "x"); });
}

}  // namespace
}  // namespace mainstem
