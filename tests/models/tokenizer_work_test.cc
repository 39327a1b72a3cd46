// How the work of encoding grows with the text, counted and not timed; and files made to hurt.
#include <gtest/gtest.h>

#include <string>

#include "mainstem/tokenizer.h"
#include "models/piece_files.h"
#include "models/tokenizer/charsmap.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/pipeline.h"
#include "models/tokenizer/token_trie.h"

namespace mainstem {
namespace {

using nlohmann::json;
using test::expect_bad_input;
using test::load_model;

using PipelinePointer = std::shared_ptr<const tokenizer::Pipeline>;

std::string repeated(const std::string& unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

/// Twice the text may take at most 2.4 times the work: n log n, and far from n².
void expect_little_growth(const PipelinePointer& pipeline, const std::string& name) {
  for (const std::string unit : {"a", "e", "th", " ", "  x", "\u6f22", "\u0301", "1", "\n", "\xFF",
                                 "the sea ", "\u2581", "'", "##", "<0x"}) {
    SCOPED_TRACE(name + ", a run of " + unit);
    constexpr size_t kBytes = 20000;
    uint64_t once = 0;
    uint64_t twice = 0;
    pipeline->encode(repeated(unit, kBytes), {.missing_byte = MissingByte::kDrop}, &once);
    pipeline->encode(repeated(unit, 2 * kBytes), {.missing_byte = MissingByte::kDrop}, &twice);
    EXPECT_LE(twice, once * 24 / 10 + 1000);
    EXPECT_LE(once, kBytes * 64);
  }
}

TEST(TokenizerWork, GrowsLittleMoreThanTheTextForEveryModel) {
  for (const char* name : {"bert", "bert_raw", "llama", "mistral", "gemma", "t5", "unigram_raw"}) {
    expect_little_growth(tokenizer::from_tokenizer_json(test::piece_variant(name).dump(), {}),
                         name);
  }
  for (const char* name : {"bpe", "bpe_user", "bpe_unused", "unigram", "unigram_bytes"}) {
    expect_little_growth(tokenizer::from_sentencepiece(test::model_bytes(name), {}), name);
  }
}

TEST(TokenizerWork, ALongWordWithoutALimitIsCutInOnePass) {
  json file = test::piece_variant("bert");
  file["model"]["max_input_chars_per_word"] = 1 << 30;
  json& vocab = file["model"]["vocab"];
  for (const char* piece : {"e", "##e", "##ee"}) {
    const size_t next = vocab.size();
    if (!vocab.contains(piece)) vocab[piece] = next;
  }
  expect_little_growth(tokenizer::from_tokenizer_json(file.dump(), {}), "no limit");
}

TEST(TokenTrie, FindsEveryPrefix) {
  const tokenizer::TokenTrie trie(
      {{"a", 1}, {"ab", 2}, {"abcd", 3}, {"", 9}, {"\xFF\xFE", 4}, {"ab", 5}, {"b", 0}});
  std::vector<std::pair<size_t, int32_t>> found;
  const auto visit = [&](size_t length, int32_t value) { found.emplace_back(length, value); };
  EXPECT_EQ(trie.visit_prefixes("abcde", visit), 4u);
  EXPECT_EQ(found, (std::vector<std::pair<size_t, int32_t>>{{1, 1}, {2, 5}, {4, 3}}));
  EXPECT_EQ(trie.longest("abcx").length, 2u);
  EXPECT_EQ(trie.longest("\xFF\xFE").value, 4);
  EXPECT_EQ(trie.longest("x").length, 0u);
  EXPECT_EQ(trie.longest("").length, 0u);
  EXPECT_TRUE(tokenizer::TokenTrie().empty());
}

std::string charsmap_of(const std::vector<uint32_t>& units, const std::string& texts) {
  test::Bytes bytes;
  bytes.u32(static_cast<uint32_t>(units.size() * 4));
  for (const uint32_t unit : units) bytes.u32(unit);
  return bytes.raw(texts).str();
}

TEST(Charsmap, StaysInsideWhateverTheFileHolds) {
  using tokenizer::Charsmap;
  expect_bad_input({"precompiled_charsmap"}, [] { Charsmap{""}; });
  expect_bad_input({"precompiled_charsmap"}, [] { Charsmap{std::string("\x08\0\0\0", 4)}; });
  expect_bad_input({"precompiled_charsmap"}, [] { Charsmap{std::string("\0\0\0\0", 4)}; });
  // The root leads to unit 'a', which leads back to the root: a circle without an end.
  std::vector<uint32_t> circle(256, 0);
  circle['a'] = static_cast<uint32_t>('a') | static_cast<uint32_t>('a') << 10;
  EXPECT_FALSE(Charsmap(charsmap_of(circle, "x")).longest(std::string(100000, 'a')));
  // An offset past the end.
  std::vector<uint32_t> far(256, 0);
  far[0] = 0x3FFFFFu << 10;
  EXPECT_FALSE(Charsmap(charsmap_of(far, "x")).longest("a"));
  // A value past the texts.
  std::vector<uint32_t> value(256, 0);
  value['a'] = static_cast<uint32_t>('a') | 1u << 8;  // a value stands at the same place
  expect_bad_input({"precompiled_charsmap", "values below"},
                   [&] { Charsmap(charsmap_of(value, "x")).longest("a"); });
}

TEST(Normalizer, RefusesToGrowWithoutBound) {
  const std::string big(1 << 20, 'b');
  const tokenizer::Normalizer normalizer({tokenizer::ReplaceStep{.pattern = "a", .content = big}});
  tokenizer::Matcher matcher;
  std::string storage;
  expect_bad_input({"normalizer", "64"},
                   [&] { normalizer.apply(std::string(10000, 'a'), true, matcher, storage); });
  json file = test::piece_variant("llama");
  file["decoder"]["decoders"][0]["content"] = std::string(1000, 'x');
  expect_bad_input({"decoder", "64"}, [&] { tokenizer::from_tokenizer_json(file.dump(), {}); });
}

TEST(SentencePieceFiles, EveryCutAndBentFileIsAnswered) {
  for (const char* name : {"bpe_user", "unigram"}) {
    const std::string bytes = test::model_bytes(name);
    const auto try_it = [&](const std::string& changed) {
      try {
        tokenizer::from_sentencepiece(changed, {})->encode("the sea \xFF[X]", {});
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      }
    };
    for (size_t length = 0; length < bytes.size(); length += 1 + bytes.size() / 150) {
      try_it(bytes.substr(0, length));
      std::string bent = bytes;
      bent[length] = static_cast<char>(bent[length] ^ 0x15);
      try_it(bent);
    }
  }
}

std::string field(uint32_t number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

TEST(SentencePieceFiles, NamesWhatItCannotHonour) {
  const auto load = [](const std::string& bytes) { tokenizer::from_sentencepiece(bytes, {}); };
  const std::string unknown = field(1, field(1, "<unk>") + "\x18\x02");
  expect_bad_input({"model_type", "3"}, [&] { load(unknown + field(2, "\x18\x03")); });
  expect_bad_input({"model_type", "9"}, [&] { load(unknown + field(2, "\x18\x09")); });
  expect_bad_input({"treat_whitespace_as_suffix"},
                   [&] { load(unknown + field(2, "\xC0\x01\x01")); });
  expect_bad_input({"type of piece 0", "7"}, [&] { load(field(1, field(1, "a") + "\x18\x07")); });
  expect_bad_input({"piece 1", "a text"}, [&] { load(unknown + field(1, "")); });
  expect_bad_input({"once", "<unk>"}, [&] { load(unknown + unknown); });
  expect_bad_input({"byte piece", "<0x-1>"},
                   [&] { load(unknown + field(1, field(1, "<0x-1>") + "\x18\x06")); });
  expect_bad_input({"score"}, [&] {
    load(unknown + field(1, field(1, "a") + std::string("\x15\0\0\xC0\x7F", 5)));
  });
  expect_bad_input({"denormalizer_spec"}, [&] { load(unknown + field(5, field(2, "abc"))); });
  expect_bad_input({"vocabulary"}, [&] { load(""); });
  expect_bad_input({"vocabulary", "8000"}, [&] {
    test::Bytes piece;
    const std::string text(9000, 'a');
    const std::string inner = std::string("\x0A\xA8\x46", 3) + text;  // field 1, 9000 bytes
    load(unknown + std::string("\x0A\xAB\x46", 3) + inner);
  });
}

TEST(GgufPiecesFiles, ChecksScoresAndByteTokens) {
  const auto build = [](size_t scores, const char* byte) {
    test::Bytes values;
    for (size_t i = 0; i < scores; ++i) values.u32(0);
    test::GgufBuilder out;
    out.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"<unk>", "a", byte});
    out.array("tokenizer.ggml.scores", GgufType::kF32, scores, values);
    out.array("tokenizer.ggml.token_type", GgufType::kI32, 3, test::Bytes().u32(2).u32(1).u32(6));
    return out.build();
  };
  const auto load = [](const std::string& bytes) {
    return Tokenizer::from_gguf(GgufFile::from_bytes(test::as_bytes(bytes), "test.gguf"));
  };
  EXPECT_EQ(load(build(3, "<0x0A>")).vocab_size(), 3);
  expect_bad_input({"scores", "3", "2"}, [&] { load(build(2, "<0x0A>")); });
  for (const char* byte : {"<0x-1>", "<0xZZ>", "<0x0>", "<0x0A", "a"}) {
    expect_bad_input({"byte token 2"}, [&] { load(build(3, byte)); });
  }
}

}  // namespace
}  // namespace mainstem
