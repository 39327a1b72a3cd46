#include <gtest/gtest.h>

#include <string>

#include "mainstem/gguf.h"
#include "mainstem/tokenizer.h"
#include "models/tokenizer_files.h"

namespace mainstem {
namespace {

using test::Bytes;
using test::expect_bad_input;
using test::GgufTokenizer;

Tokenizer load_bytes(const std::string& bytes) {
  return Tokenizer::from_gguf(GgufFile::from_bytes(test::as_bytes(bytes), "test.gguf"));
}

/// Three tokens and one merge: enough to see what a reader checks.
GgufTokenizer small() {
  GgufTokenizer parts;
  parts.tokens = {"<s>", "a", "b", "ab"};
  parts.types = {3, 1, 1, 1};
  parts.merges = {"a b"};
  return parts;
}

Tokenizer load_parts(const GgufTokenizer& parts) { return load_bytes(parts.builder().build()); }

TEST(TokenizerGguf, ReadsTheSmallOne) {
  const Tokenizer tokenizer = load_parts(small());
  EXPECT_EQ(tokenizer.encode("abba<s>"), (std::vector<int64_t>{3, 2, 1, 0}));
  EXPECT_EQ(tokenizer.encode("<s>", {.parse_special = false, .missing_byte = MissingByte::kDrop}),
            (std::vector<int64_t>{}));
  EXPECT_FALSE(tokenizer.bos_id());
  EXPECT_TRUE(tokenizer.is_special(0));
  EXPECT_FALSE(tokenizer.is_special(3));
}

TEST(TokenizerGguf, SaysWhichRulesItUsed) {
  GgufTokenizer parts = small();
  parts.flags = {{"add_bos_token", false}};
  std::string all;
  const Tokenizer tokenizer = load_parts(parts);
  for (const std::string& rule : tokenizer.rules()) all += rule + "\n";
  EXPECT_THAT(all, testing::HasSubstr("pre-tokenizer: gpt-2 (tokenizer.ggml.pre)"));
  EXPECT_THAT(all, testing::HasSubstr("BOS: not added (tokenizer.ggml.add_bos_token)"));
  EXPECT_THAT(all, testing::HasSubstr("254 of 256 have no token"));
}

TEST(TokenizerGguf, AddsWhatTheFlagsSay) {
  GgufTokenizer parts = small();
  parts.ids = {{"bos_token_id", 0}, {"eos_token_id", 3}};
  EXPECT_EQ(load_parts(parts).encode("a"), (std::vector<int64_t>{1}));
  parts.flags = {{"add_bos_token", true}, {"add_eos_token", true}};
  EXPECT_EQ(load_parts(parts).encode("a"), (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(load_parts(parts).encode("a", {.add_special = false}), (std::vector<int64_t>{1}));
  EXPECT_EQ(load_parts(parts).encode(""), (std::vector<int64_t>{0, 3}));
}

TEST(TokenizerGguf, Llama3AddsBosAndIgnoresMergesUnlessToldOtherwise) {
  GgufTokenizer parts = small();
  parts.pre = "llama-bpe";
  parts.ids = {{"bos_token_id", 0}};
  parts.tokens.push_back("bab");  // no merge leads to it
  parts.types.push_back(1);
  EXPECT_EQ(load_parts(parts).encode("bab"), (std::vector<int64_t>{0, 4}));
  parts.flags = {{"add_bos_token", false}};
  EXPECT_EQ(load_parts(parts).encode("bab"), (std::vector<int64_t>{4}));
  parts.pre = "gpt-2";
  EXPECT_EQ(load_parts(parts).encode("bab"), (std::vector<int64_t>{2, 3}));
}

TEST(TokenizerGguf, CollectsEveryEndId) {
  GgufTokenizer parts = small();
  parts.tokens.insert(parts.tokens.end(), {"<|eot_id|>", "<|eom_id|>", "<|im_end|>"});
  parts.types.insert(parts.types.end(), {3, 1, 1});  // the last two are ordinary text
  parts.ids = {{"eos_token_id", 0}, {"eom_token_id", 5}};
  EXPECT_EQ(load_parts(parts).end_ids(), (std::vector<int64_t>{0, 4, 5}));
}

TEST(TokenizerGguf, TakesTheLongestAddedTokenFirst) {
  GgufTokenizer parts = small();
  parts.tokens.insert(parts.tokens.end(), {"  ", "    "});
  parts.types.insert(parts.types.end(), {4, 4});
  EXPECT_EQ(load_parts(parts).encode("a      b"), (std::vector<int64_t>{1, 5, 4, 2}));
  // User-defined tokens match whatever parse_special says.
  EXPECT_EQ(load_parts(parts).encode("a  b", {.parse_special = false}),
            (std::vector<int64_t>{1, 4, 2}));
}

TEST(TokenizerGguf, NamesUnknownKinds) {
  GgufTokenizer parts = small();
  parts.model = "rwkv";
  expect_bad_input({"tokenizer.ggml.model", "gpt2", "rwkv"}, [&] { load_parts(parts); });
  parts = small();
  parts.pre = "nobody";
  expect_bad_input({"pre-tokenizer", "smollm", "llama-bpe", "nobody", "tokenizer.ggml.pre"},
                   [&] { load_parts(parts); });
  parts.pre = "";
  expect_bad_input({"tokenizer.ggml.pre", "no such key"}, [&] { load_parts(parts); });
}

TEST(TokenizerGguf, ChecksTypesAndLengths) {
  GgufTokenizer parts = small();
  parts.types.pop_back();
  expect_bad_input({"tokenizer.ggml.token_type", "4", "3"}, [&] { load_parts(parts); });
  parts = small();
  parts.types[2] = 7;
  expect_bad_input({"token_type of token 2", "7"}, [&] { load_parts(parts); });
  parts.types[2] = 0;
  expect_bad_input({"token_type of token 2", "0"}, [&] { load_parts(parts); });
  parts = small();
  parts.types.clear();
  auto u8_types = parts.builder();
  u8_types.array("tokenizer.ggml.token_type", GgufType::kU8, 4, Bytes().u32(0x01010103));
  expect_bad_input({"tokenizer.ggml.token_type"}, [&] { load_bytes(u8_types.build()); });
  parts = small();
  parts.tokens.clear();
  parts.types.clear();
  expect_bad_input({"vocabulary"}, [&] { load_parts(parts); });
}

TEST(TokenizerGguf, ChecksMerges) {
  GgufTokenizer parts = small();
  for (const char* merge : {"a x", "x b"}) {
    parts.merges = {"a b", merge};
    expect_bad_input({"merge 1", "x"}, [&] { load_parts(parts); });
  }
  parts.merges = {"b a"};
  expect_bad_input({"merge 0", "joint text is no token"}, [&] { load_parts(parts); });
  for (const char* merge : {"ab", "", " ", "a ", "a"}) {
    parts.merges = {merge};
    expect_bad_input({"merge 0", "space between"}, [&] { load_parts(parts); });
  }
}

TEST(TokenizerGguf, ChecksIds) {
  for (const char* name :
       {"bos_token_id", "eos_token_id", "eot_token_id", "unknown_token_id", "padding_token_id"}) {
    GgufTokenizer parts = small();
    parts.ids = {{name, 4}};
    expect_bad_input({name, "below 4", "got 4"}, [&] { load_parts(parts); });
    parts.ids = {{name, 0xFFFFFFFFu}};
    expect_bad_input({name, "4294967295"}, [&] { load_parts(parts); });
  }
  GgufTokenizer parts = small();
  parts.flags = {{"add_bos_token", true}};
  expect_bad_input({"tokenizer.ggml.bos_token_id", "add_bos_token"}, [&] { load_parts(parts); });
}

TEST(TokenizerGguf, TokensOutsideTheByteAlphabetStandForThemselves) {
  GgufTokenizer parts = small();
  parts.tokens[2] = "x y";  // a space is no byte-level character
  parts.tokens[3] = "\xFF";
  parts.merges.clear();
  const Tokenizer tokenizer = load_parts(parts);
  EXPECT_EQ(tokenizer.token_bytes(2), "x y");
  EXPECT_EQ(tokenizer.token_bytes(3), "\xFF");
}

}  // namespace
}  // namespace mainstem
