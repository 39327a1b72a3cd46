// Odd and hostile safetensors files. Each test is named after a public report; the comments give
// its source.

#include <cstdint>
#include <deque>
#include <string>

#include "io/test_files.h"
#include "mainstem/safetensors.h"

namespace mainstem {
namespace {

using test::expect_bad_input;
using test::safetensors;
using test::safetensors_with;

SafetensorsFile parse(const std::string& content, const SafetensorsOptions& options = {}) {
  // A file views its bytes; these live until the program ends.
  static std::deque<std::string> kept;
  return SafetensorsFile::from_bytes(test::as_bytes(kept.emplace_back(content)), "x.safetensors",
                                     options);
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}}";
}

// huggingface/transformers#27923: the first 8 bytes, "version ", read as a length.
TEST(HostileSafetensors, F1_LfsPointerIsRecognised) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4665\nsize 134\n";
  expect_bad_input({"Git LFS pointer", "git lfs pull", "x.safetensors"}, [&] { parse(pointer); });
}

TEST(HostileSafetensors, F1_WebPageIsRecognised) {
  expect_bad_input({"a web page"}, [&] { parse("<!DOCTYPE html><html></html>"); });
}

TEST(HostileSafetensors, F1_OtherTextIsNoLength) {
  expect_bad_input({"header length", "at most the 13 bytes that follow", "2336927755350992246"},
                   [&] { parse("version 1.0 of a text"); });
}

// safetensors/safetensors#668: the limit is named and can be raised.
TEST(HostileSafetensors, F2_HeaderLimitIsNamedAndConfigurable) {
  std::string header = one("U8", "[1]", "[0,1]");
  header.resize(2000, ' ');
  const std::string content = safetensors(header, "x");
  SafetensorsOptions options;
  options.max_header_bytes = 1999;
  expect_bad_input({"at most 1999 bytes", "got 2000", "max_header_bytes"},
                   [&] { parse(content, options); });
  options.max_header_bytes = 2000;
  EXPECT_NO_THROW(parse(content, options));
}

TEST(HostileSafetensors, F2_DefaultLimitIs100MB) {
  EXPECT_EQ(SafetensorsOptions{}.max_header_bytes, 100'000'000u);
}

// ggml-org/llama.cpp#6733: truncated files; how much is missing must be said.
TEST(HostileSafetensors, F3_TruncatedDataSaysHowMuchIsMissing) {
  const std::string header = one("F32", "[4]", "[0,16]");
  expect_bad_input({"3 bytes are missing", std::to_string(8 + header.size() + 16), "truncated"},
                   [&] { parse(safetensors_with(header, 13)); });
  EXPECT_NO_THROW(parse(safetensors_with(header, 16)));
}

TEST(HostileSafetensors, F3_TruncatedHeader) {
  const std::string content = safetensors_with(one("F32", "[4]", "[0,16]"), 16);
  for (size_t size = 0; size < content.size(); ++size) {
    expect_bad_input({"x.safetensors"}, [&] { parse(content.substr(0, size)); });
  }
}

// Comfy-Org/ComfyUI#15602: one rule for bytes after the last tensor.
TEST(HostileSafetensors, F4_TrailingBytesAreAnErrorOrAWarning) {
  const std::string content = safetensors_with(one("F32", "[4]", "[0,16]"), 21);
  expect_bad_input({"fully covered", "5 more"}, [&] { parse(content); });
  SafetensorsOptions options;
  options.allow_trailing = true;
  const SafetensorsFile file = parse(content, options);
  ASSERT_EQ(file.warnings().size(), 1u);
  EXPECT_THAT(file.warnings()[0], testing::HasSubstr("5 more bytes"));
  EXPECT_EQ(file.view("a").bytes(), 16);
}

// ml-explore/mlx#3363: the shape says more than the offsets cover.
TEST(HostileSafetensors, F5_ShapeAndOffsetsMustAgree) {
  const auto reject = [](const std::string& shape, const std::string& offsets,
                         std::string_view part) {
    expect_bad_input({part, "\"a\"", "x.safetensors"},
                     [&] { parse(safetensors_with(one("F32", shape, offsets), 16)); });
  };
  reject("[1024,1024]", "[0,16]", "expected 4194304 bytes for F32 [1024, 1024], got 16");
  reject("[3]", "[0,16]", "expected 12 bytes");
  reject("[4]", "[16,0]", "begin <= end");
  reject("[4]", "[0]", "two numbers");
  reject("[4]", "[]", "two numbers");
  reject("[4]", "[0,8,16]", "two numbers");
  reject("[4]", "[0,16.0]", "numbers that are not negative");
  reject("[4]", "[-1,16]", "numbers that are not negative");
  reject("[4]", "[\"0\",16]", "numbers that are not negative");
  reject("[4]", "[[0],16]", "numbers that are not negative");
  reject("[-4]", "[0,16]", "numbers that are not negative");
  reject("[4.5]", "[0,16]", "numbers that are not negative");
  reject("[null]", "[0,16]", "numbers that are not negative");
  reject("[4]", "[0,18446744073709551616]", "numbers that are not negative");
}

TEST(HostileSafetensors, F5_EndPastTheData) {
  expect_bad_input({"are missing"},
                   [] { parse(safetensors_with(one("U8", "[17]", "[0,17]"), 16)); });
}

// ohdearquant/lattice#752: two tensors share a range, so that k_proj equals v_proj.
TEST(HostileSafetensors, F6_OverlapAndHole) {
  const auto two = [](const std::string& second) {
    return "{\"k\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
           "\"v\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":" +
           second + "}}";
  };
  EXPECT_NO_THROW(parse(safetensors_with(two("[8,16]"), 16)));
  expect_bad_input({"an overlap"}, [&] { parse(safetensors_with(two("[0,8]"), 8)); });
  expect_bad_input({"begin at 8", "got 7, an overlap", "\"v\""},
                   [&] { parse(safetensors_with(two("[7,15]"), 15)); });
  expect_bad_input({"begin at 8", "got 9, a hole"},
                   [&] { parse(safetensors_with(two("[9,17]"), 17)); });
}

TEST(HostileSafetensors, F6_HoleBeforeTheFirst) {
  expect_bad_input({"begin at 0 (the first)", "a hole"},
                   [] { parse(safetensors_with(one("U8", "[8]", "[8,16]"), 16)); });
}

TEST(HostileSafetensors, F6_AnyOrderOfTheHeader) {
  const std::string header =
      "{\"late\":{\"data_offsets\":[4,6],\"shape\":[2],\"dtype\":\"U8\"},"
      "\"early\":{\"shape\":[1],\"dtype\":\"F32\",\"data_offsets\":[0,4]}}";
  const SafetensorsFile file = parse(safetensors_with(header, 6));
  EXPECT_EQ(file.tensors()[0].name, "early");
  EXPECT_EQ(file.tensors()[1].name, "late");
}

// QuintinShaw/openasr#73: duplicate keys and a length prefix of 2^64-1.
TEST(HostileSafetensors, F7_DuplicateKeys) {
  const std::string entry = "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}";
  const std::string empty = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]}";
  expect_bad_input({"\"a\" twice"},
                   [&] { parse(safetensors("{\"a\":" + entry + ",\"a\":" + empty + "}", "x")); });
  expect_bad_input({"\"dtype\" twice"}, [] {
    parse(
        safetensors("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],"
                    "\"data_offsets\":[0,1]}}",
                    "x"));
  });
  expect_bad_input({"\"k\" twice"},
                   [] { parse(safetensors("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}")); });
  expect_bad_input({"one __metadata__"},
                   [] { parse(safetensors("{\"__metadata__\":{},\"__metadata__\":{}}")); });
}

TEST(HostileSafetensors, F7_HugeLengthPrefix) {
  for (const uint64_t length : {UINT64_MAX, UINT64_MAX - 7, uint64_t{1} << 63, uint64_t{9}}) {
    const std::string content = test::Bytes().u64(length).raw("{}      ").str();
    expect_bad_input({"header length", "at most the 8 bytes that follow", std::to_string(length)},
                     [&] { parse(content); });
  }
}

// kekzl/imp#1603: an unknown dtype must not switch the checks off.
TEST(HostileSafetensors, F8_UnknownDtypeIsListedButNotReadable) {
  const SafetensorsFile file = parse(safetensors_with(one("Q9_Z", "[3]", "[0,7]"), 7));
  ASSERT_EQ(file.tensors().size(), 1u);
  EXPECT_FALSE(file.tensors()[0].readable());
  EXPECT_EQ(file.tensors()[0].dtype_name, "Q9_Z");
  EXPECT_EQ(file.tensors()[0].shape, Shape{3});
  expect_bad_input({"dtype", "Q9_Z", "\"a\"", "x.safetensors"}, [&] { file.view("a"); });
}

TEST(HostileSafetensors, F8_UnknownDtypeIsStillChecked) {
  expect_bad_input({"begin <= end"},
                   [] { parse(safetensors_with(one("Q9_Z", "[3]", "[7,3]"), 7)); });
  expect_bad_input({"file size"}, [] {
    parse(safetensors_with(one("Q9_Z", "[3]", "[0,18446744073709551615]"), 7));
  });
  expect_bad_input({"a hole"}, [] { parse(safetensors_with(one("Q9_Z", "[3]", "[1,7]"), 7)); });
}

// promptfoo/modelaudit#1607: shape [0] with an empty range occurs in real checkpoints.
TEST(HostileSafetensors, F9_ZeroSizeTensors) {
  const std::string header =
      "{\"empty\":{\"dtype\":\"F8_E4M3\",\"shape\":[0],\"data_offsets\":[4,4]},"
      "\"full\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
      "\"none\":{\"dtype\":\"F32\",\"shape\":[3,0,2],\"data_offsets\":[0,0]}}";
  const SafetensorsFile file = parse(safetensors_with(header, 4));
  EXPECT_EQ(file.view("empty").count(), 0);
  EXPECT_EQ(file.view("none").shape(), (Shape{3, 0, 2}));
  EXPECT_EQ(file.view("full").count(), 1);
  expect_bad_input({"expected 4 bytes", "got 0"},
                   [] { parse(safetensors(one("F32", "[1]", "[0,0]"))); });
}

// README of huggingface/safetensors, tinygrad/tinygrad#3310, ml-explore/mlx#1859.
TEST(HostileSafetensors, F10_RankZeroAndSmallFloats) {
  const auto dtype = [](const std::string& type, size_t bytes) {
    const std::string range = "[0," + std::to_string(bytes) + "]";
    return parse(safetensors_with(one(type, "[]", range), bytes)).view("a").dtype();
  };
  EXPECT_EQ(dtype("BF16", 2), DType::kBF16);
  EXPECT_EQ(dtype("F16", 2), DType::kF16);
  EXPECT_EQ(dtype("F8_E4M3", 1), DType::kF8E4M3);
  EXPECT_EQ(dtype("F8_E5M2", 1), DType::kF8E5M2);
  const SafetensorsFile file = parse(safetensors_with(one("F64", "[]", "[0,8]"), 8));
  EXPECT_EQ(file.view("a").rank(), 0u);
  EXPECT_EQ(file.view("a").count(), 1);
}

TEST(HostileSafetensors, F10_SubByteTypesCountElements) {
  const SafetensorsFile file = parse(safetensors_with(one("F4", "[3,4]", "[0,6]"), 6));
  expect_bad_input({"F4"}, [&] { file.view("a"); });
  expect_bad_input({"expected 6 bytes"},
                   [] { parse(safetensors_with(one("F4", "[3,4]", "[0,12]"), 12)); });
  expect_bad_input({"last dimension that fills whole bytes at 4 bits"},
                   [] { parse(safetensors_with(one("F4", "[2,3]", "[0,3]"), 3)); });
  expect_bad_input({"last dimension", "6 bits"},
                   [] { parse(safetensors_with(one("F6_E2M3", "[2,2]", "[0,3]"), 3)); });
  const SafetensorsFile scales = parse(safetensors_with(one("F8_E8M0", "[3]", "[0,3]"), 3));
  EXPECT_FALSE(scales.tensors()[0].readable());
}

TEST(HostileSafetensors, F10_MissingKeys) {
  expect_bad_input({"a key dtype"},
                   [] { parse(safetensors("{\"a\":{\"shape\":[0],\"data_offsets\":[0,0]}}")); });
  expect_bad_input({"a key shape"},
                   [] { parse(safetensors("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}")); });
  expect_bad_input({"a key data_offsets"},
                   [] { parse(safetensors("{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}")); });
  expect_bad_input({"\"offsets\""}, [] {
    parse(safetensors("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"offsets\":[0,0]}}"));
  });
}

// ggml-org/llama.cpp#14595 and its kin, seen from this format: products that wrap.
TEST(HostileSafetensors, F13_ProductsThatWrap) {
  const auto reject = [](const std::string& dtype, const std::string& shape) {
    expect_bad_input({"\"a\""}, [&] { parse(safetensors(one(dtype, shape, "[0,0]"))); });
  };
  reject("U8", "[4294967296,4294967296]");
  reject("F64", "[2305843009213693952]");
  reject("F64", "[1152921504606846976,2]");
  reject("F32", "[9223372036854775808]");
  reject("F32", "[18446744073709551615]");
  reject("F4", "[9223372036854775806]");
}

TEST(HostileSafetensors, F14_NestingAndRank) {
  expect_bad_input({"depth"}, [] { parse(safetensors("{\"a\":{\"shape\":[[[[[[[[0")); });
  std::string dims = "1";
  for (int i = 1; i < 64; ++i) dims += ",1";
  EXPECT_EQ(parse(safetensors(one("U8", "[" + dims + "]", "[0,1]"), "x")).view("a").rank(), 64u);
  expect_bad_input({"at most 64 dimensions"},
                   [&] { parse(safetensors(one("U8", "[" + dims + ",1]", "[0,1]"), "x")); });
}

TEST(HostileSafetensors, HeaderThatIsNoHeader) {
  expect_bad_input({"at least 8 bytes", "got 0"}, [] { parse(""); });
  expect_bad_input({"at least 8 bytes", "got 7"}, [] { parse("1234567"); });
  expect_bad_input({"a JSON object at byte 8"}, [] { parse(safetensors("")); });
  expect_bad_input({"a JSON object at byte 8"}, [] { parse(safetensors(" {}")); });
  expect_bad_input({"a JSON object at byte 8"}, [] { parse(safetensors("[]")); });
  expect_bad_input({"JSON", "line 1"}, [] { parse(safetensors("{}x")); });
  expect_bad_input({"JSON"}, [] { parse(safetensors("{\"a\":")); });
  expect_bad_input({"NUL"}, [] { parse(safetensors(std::string("{}\0{", 4))); });
  expect_bad_input({"JSON"}, [] { parse(safetensors("{\"\xff\":{}}")); });
  expect_bad_input({"an object"}, [] { parse(safetensors("{\"a\":1}")); });
  expect_bad_input({"text values"}, [] { parse(safetensors("{\"__metadata__\":{\"a\":1}}")); });
  expect_bad_input({"text values"}, [] { parse(safetensors("{\"__metadata__\":{\"a\":{}}}")); });
  expect_bad_input({"__metadata__", "an object"},
                   [] { parse(safetensors("{\"__metadata__\":[]}")); });
  const SafetensorsFile empty = parse(safetensors("{}   "));
  EXPECT_TRUE(empty.tensors().empty());
}

TEST(HostileSafetensors, TooManyUnknownTypes) {
  const auto with_types = [](int count) {
    std::string header = "{";
    for (int i = 0; i < count; ++i) {
      const std::string id = std::to_string(i);
      header += (i == 0 ? "\"" : ",\"") + id + "\":{\"dtype\":\"T" + id +
                "\",\"shape\":[],\"data_offsets\":[0,0]}";
    }
    return safetensors(header + "}");
  };
  EXPECT_NO_THROW(parse(with_types(64)));
  expect_bad_input({"at most 64 types"}, [&] { parse(with_types(65)); });
}

}  // namespace
}  // namespace mainstem
