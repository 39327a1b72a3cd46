#include "io/json.h"

#include <string>

#include "io/test_files.h"

namespace mainstem {
namespace {

using test::expect_bad_input;

TEST(Json, ReadsValuesOfEveryKind) {
  const nlohmann::json value = parse_json(
      R"( {"a": [1, -2, 3.5, true, false, null], "b": {"c": "ü\u00e9\ud83d\ude00", "d": {}}, "e": []} )");
  EXPECT_EQ(value["a"][0].get<int64_t>(), 1);
  EXPECT_EQ(value["a"][1].get<int64_t>(), -2);
  EXPECT_EQ(value["a"][2].get<double>(), 3.5);
  EXPECT_TRUE(value["a"][3].get<bool>());
  EXPECT_TRUE(value["a"][5].is_null());
  EXPECT_EQ(value["b"]["c"].get<std::string>(), "ü\u00e9😀");
  EXPECT_TRUE(value["b"]["d"].is_object());
  EXPECT_TRUE(value["e"].is_array());
  EXPECT_EQ(parse_json("18446744073709551615").get<uint64_t>(), UINT64_MAX);
}

// The document must be what nlohmann's own builder makes of the same text.
TEST(Json, AgreesWithTheLibrarysBuilder) {
  const std::string text = R"({"x":[[],[{}],{"y":[1,{"z":[2,[3,[4]]]}]}],"w":"v","u":1e-3})";
  EXPECT_EQ(parse_json(text), nlohmann::json::parse(text));
}

TEST(Json, DuplicateKeysAreRefusedWithTheirPlace) {
  expect_bad_input({"\"a\" twice", "line 2, column"}, [] { parse_json("{\"a\": 1,\n \"a\": 2}"); });
  expect_bad_input({"\"b\" twice"}, [] { parse_json(R"({"a": [{"b": 1, "c": 2, "b": 3}]})"); });
  expect_bad_input({"twice"}, [] { parse_json(R"({"a": 1, "\u0061": 2})"); });
  EXPECT_NO_THROW(parse_json(R"([{"a": 1}, {"a": 2}, {"b": {"a": 1}, "a": 2}])"));
}

TEST(Json, OneDocumentAndNothingElse) {
  for (const std::string_view text :
       {"",        " ",           "{} x",   "{}{}",    "1 2",       "[1,]",     "{\"a\":1,}",
        "{a:1}",   "'a'",         "[1",     "{\"a\"",  "NaN",       "Infinity", "-",
        "01",      "1.",          "+1",     "// c\n1", "/* c */ 1", "nul",      "\"a",
        "\"\\x\"", "\"\\ud800\"", "\"\t\"", "]",       "}",         "1e999"}) {
    SCOPED_TRACE(text);
    expect_bad_input({"JSON", "line 1, column"}, [&] { parse_json(text); });
  }
}

// The parser below takes a NUL byte for the end and would accept what follows.
TEST(Json, NulBytesAreRefused) {
  expect_bad_input({"NUL", "line 1, column 3"}, [] { parse_json(std::string_view("{}\0x", 4)); });
  expect_bad_input({"NUL"}, [] { parse_json(std::string_view("{}\0", 3)); });
  expect_bad_input({"NUL"}, [] { parse_json(std::string_view("[\"a\0b\"]", 7)); });
  expect_bad_input({"NUL"}, [] { parse_json(std::string_view("\"\\\0", 3)); });
}

TEST(Json, Utf8IsChecked) {
  expect_bad_input({"JSON"}, [] { parse_json("\"\xff\""); });
  expect_bad_input({"JSON"}, [] { parse_json("\"\xc0\x80\""); });
  expect_bad_input({"JSON"}, [] { parse_json("\"\xed\xa0\x80\""); });
  expect_bad_input({"JSON"}, [] { parse_json("\"\xe2\x82\""); });
  expect_bad_input({"byte order mark"}, [] { parse_json("\xef\xbb\xbf{}"); });
}

TEST(Json, DepthIsLimited) {
  JsonLimits limits;
  limits.max_depth = 5;
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(parse_json(nested(5), limits));
  expect_bad_input({"a depth of at most 5", "column 6"}, [&] { parse_json(nested(6), limits); });
  expect_bad_input({"a depth of at most 128"}, [&] { parse_json(std::string(1000000, '[')); });
  EXPECT_NO_THROW(parse_json("[\"[[[[[[[[[[{{{{{{{{\\\"[[[[\"]", limits));
}

TEST(Json, SizeAndTokensAreLimited) {
  JsonLimits limits;
  limits.max_bytes = 10;
  EXPECT_NO_THROW(parse_json("[12345678]", limits));
  expect_bad_input({"at most 10 bytes", "11"}, [&] { parse_json("[123456789]", limits); });
  limits = {};
  limits.max_token_bytes = 4;
  EXPECT_NO_THROW(parse_json("[\"abcd\", 1234]", limits));
  expect_bad_input({"tokens of at most 4 bytes"}, [&] { parse_json("[\"abcdef\"]", limits); });
  expect_bad_input({"tokens of at most 4 bytes"}, [&] { parse_json("[123456]", limits); });
}

TEST(Json, MemoryIsBounded) {
  // 2 bytes of text that need 16 and more each; the same with objects.
  std::string numbers = "[0";
  for (int i = 0; i < 3500000; ++i) numbers += ",0";
  expect_bad_input({"memory"}, [&] { parse_json(numbers + "]"); });
  std::string objects = "[{}";
  for (int i = 0; i < 3000000; ++i) objects += ",{}";
  expect_bad_input({"memory"}, [&] { parse_json(objects + "]"); });
}

TEST(Json, PositionCountsLinesAndColumns) {
  expect_bad_input({"line 3, column 9"}, [] { parse_json("{\n  \"a\": 1,\n  \"b\": x\n}"); });
}

TEST(Json, FilesNameTheirPath) {
  const test::TempDir dir;
  EXPECT_EQ(read_json_file(test::write_file(dir / "a.json", "[1]"))[0], 1);
  expect_bad_input({"bad.json", "line 1"},
                   [&] { read_json_file(test::write_file(dir / "bad.json", "[1")); });
  expect_bad_input({"none.json", "No such file"}, [&] { read_json_file(dir / "none.json"); });
  expect_bad_input({"Git LFS pointer", "lfs.json"}, [&] {
    read_json_file(test::write_file(dir / "lfs.json", "version https://git-lfs.github.com/"));
  });
}

}  // namespace
}  // namespace mainstem
