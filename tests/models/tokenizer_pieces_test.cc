// WordPiece, SentencePiece BPE and unigram: ids and texts against tokenizers 0.23.3, sentencepiece
// 0.2.3 and llama.cpp (tests/generators/make_piece_tokenizers.py, make_gguf_tokenizers.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "io/test_files.h"
#include "mainstem/gguf.h"
#include "mainstem/tokenizer.h"
#include "models/piece_files.h"
#include "models/tokenizer/loaders.h"

namespace mainstem {
namespace {

using nlohmann::json;
using test::load_model;
using test::load_variant;
using test::read_golden;
using Ids = std::vector<int64_t>;

const json& golden(const std::string& name) {
  static std::map<std::string, json> files;
  json& file = files[name];
  if (file.is_null()) file = read_golden("tokenizers/pieces/" + name);
  return file;
}

class PieceVariant : public testing::TestWithParam<std::string> {};

TEST_P(PieceVariant, GivesTheIdsAndTextsOfTheTokenizersLibrary) {
  const Tokenizer tokenizer = load_variant(GetParam());
  const json& cases = golden("variants.json").at(GetParam())["cases"];
  ASSERT_GT(cases.size(), 130u);
  for (const auto& entry : cases) {
    const auto text = entry[0].get<std::string>();
    const Ids ids = tokenizer.encode(text, {.missing_byte = MissingByte::kDrop});
    EXPECT_EQ(ids, entry[1].get<Ids>()) << "text: " << entry[0];
    EXPECT_EQ(tokenizer.decode(entry[1].get<Ids>()), entry[2].get<std::string>())
        << "text: " << entry[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Structures, PieceVariant,
                         testing::Values("bert", "bert_cased", "bert_raw", "bert_short_words",
                                         "bert_forms", "llama_legacy", "llama", "mistral", "gemma",
                                         "no_prefix", "few_bytes", "no_bytes", "t5", "t5_words",
                                         "first_word", "unigram_nfkc", "unigram_raw"),
                         [](const auto& test) { return test.param; });

TEST(PieceVariants, EveryVariantOfTheFileIsTested) {
  EXPECT_EQ(golden("variants.json").size(), 17u);
}

class SentencePieceModel : public testing::TestWithParam<std::string> {};

TEST_P(SentencePieceModel, GivesTheIdsAndTextsOfSentencepiece) {
  const Tokenizer tokenizer =
      load_model(GetParam(), R"({"add_bos_token": false, "add_eos_token": false, "legacy": true})");
  const json& cases = golden("models.json").at(GetParam());
  ASSERT_GT(cases.size(), 130u);
  for (const auto& entry : cases) {
    const auto text = entry[0].get<std::string>();
    const Ids expected = entry[1].get<Ids>();
    // sentencepiece never takes text for a control token.
    EXPECT_EQ(tokenizer.encode(text, {.parse_special = false}), expected) << "text: " << entry[0];
    // It writes the unknown token as " ⁇ ", where this library leaves special tokens out.
    if (std::ranges::count(expected, *tokenizer.unknown_id()) == 0) {
      EXPECT_EQ(tokenizer.decode(expected), entry[2].get<std::string>()) << "text: " << entry[0];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SentencePieceModel,
                         testing::Values("bpe", "bpe_user", "bpe_plain", "bpe_unused", "unigram",
                                         "unigram_bytes", "unigram_unused"),
                         [](const auto& test) { return test.param; });

class GgufPieces : public testing::TestWithParam<std::string> {};

TEST_P(GgufPieces, GivesTheIdsOfLlamaCpp) {
  const std::string bytes = test::piece_gguf(GetParam());
  const auto file = GgufFile::from_bytes(test::as_bytes(bytes), "test.gguf");
  const Tokenizer tokenizer = Tokenizer::from_gguf(file);
  const json& cases = golden("gguf.json").at(GetParam());
  ASSERT_GT(cases.size(), 130u);
  for (const auto& entry : cases) {
    const auto text = entry[0].get<std::string>();
    // Where runs of spaces are one, sentencepiece takes this mark at the end for one, too;
    // llama.cpp does not.
    if (GetParam() == "unigram" && text.ends_with("\u2581")) continue;
    EXPECT_EQ(tokenizer.encode(text), entry[1].get<Ids>()) << "text: " << entry[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GgufPieces, testing::Values("bpe", "bpe_user", "unigram"),
                         [](const auto& test) { return test.param; });

TEST(WordPieceFiles, VocabTxtAndGgufAreTheTokenizerJson) {
  const auto folder = test::pieces_folder();
  const Tokenizer from_text = Tokenizer::load(folder / "vocab.txt");
  const auto load_gguf = [](bool cased) {
    const std::string bytes = test::word_piece_gguf(cased);
    return Tokenizer::from_gguf(GgufFile::from_bytes(test::as_bytes(bytes), "test.gguf"));
  };
  const Tokenizer from_gguf = load_gguf(/*cased=*/false);
  const Tokenizer cased = load_gguf(/*cased=*/true);
  for (const auto& entry : golden("variants.json").at("bert")["cases"]) {
    const auto text = entry[0].get<std::string>();
    const auto ids = entry[1].get<Ids>();
    EXPECT_EQ(from_text.encode(text), ids) << "text: " << entry[0];
    EXPECT_EQ(from_gguf.encode(text), ids) << "text: " << entry[0];
    EXPECT_EQ(from_text.decode(ids), entry[2].get<std::string>());
    EXPECT_EQ(from_gguf.decode(ids), entry[2].get<std::string>());
  }
  for (const auto& entry : golden("variants.json").at("bert_cased")["cases"]) {
    EXPECT_EQ(cased.encode(entry[0].get<std::string>()), entry[1].get<Ids>())
        << "text: " << entry[0];
  }
}

TEST(WordPieceFiles, TheConfigMayKeepUpperCaseAndNameTokens) {
  const std::string vocab = "[PAD]\n[UNK]\n<cls>\n[SEP]\nA\na\n\u00e9\ne\n";
  const auto load = [&](const std::string& config) {
    return Tokenizer(tokenizer::from_vocab_txt(vocab, {.tokenizer_config = config}));
  };
  EXPECT_EQ(load("{}").encode("A \u00c9"), (Ids{5, 7, 3}));  // no token is called [CLS]
  EXPECT_EQ(load(R"({"do_lower_case": false, "cls_token": "<cls>"})").encode("A \u00c9 e"),
            (Ids{2, 4, 1, 7, 3}));
  EXPECT_EQ(load(R"({"strip_accents": false})").encode("A \u00c9"), (Ids{5, 6, 3}));
}

TEST(Marian, GivesTheIdsOfVocabJson) {
  const test::TempDir folder;
  for (const auto& [from, to] :
       {std::pair("unigram.model", "source.spm"), std::pair("vocab.json", "vocab.json")}) {
    std::filesystem::copy_file(test::pieces_folder() / from, folder / to);
  }
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  for (const auto& entry : golden("files.json").at("marian")) {
    EXPECT_EQ(tokenizer.encode(entry[0].get<std::string>()), entry[1].get<Ids>())
        << "text: " << entry[0];
  }
  const json ids = golden("vocab.json");
  EXPECT_EQ(tokenizer.vocab_size(), static_cast<int64_t>(ids.size()));
  EXPECT_EQ(tokenizer.encode(">>de<< sea")[0], ids.at(">>de<<").get<int64_t>());
  std::filesystem::remove(folder / "vocab.json");
  test::expect_bad_input({"vocab.json"}, [&] { Tokenizer::load(folder.path()); });
}

TEST(SentencePieceSpaces, TheSpacePrefixFollowsTheConfig) {
  const auto ids = [](const char* config, const char* text) {
    return load_model("bpe", config).encode(text);
  };
  const char* without = R"({"add_bos_token": false})";
  // Only the text's own start has the prefix, unless the tokenizer is a legacy one.
  const Ids after = ids(without, "<s>the");
  const Ids legacy = ids(R"({"add_bos_token": false, "legacy": true})", "<s>the");
  const Tokenizer tokenizer = load_model("bpe", without);
  EXPECT_EQ(tokenizer.decode(Ids(after.begin() + 1, after.end()), {.skip_special = false}), "the");
  EXPECT_EQ(tokenizer.token_bytes(after[1])[0], 't');
  EXPECT_EQ(tokenizer.token_bytes(legacy[1])[0], ' ');
  EXPECT_EQ(ids("{}", "the"), (Ids{1, *tokenizer.find(" the")}));
}

TEST(SentencePieceBytes, AnyBytesComeBack) {
  const Tokenizer tokenizer = load_model("bpe", "{}");
  for (const std::string text :
       {"\xFF", "a\xC3", "\xE2\x82 b", "caf\xC3\xA9\x80", "\xF0\x9F\x98"}) {
    const Ids ids = tokenizer.encode(text, {.add_special = false});
    EXPECT_EQ(tokenizer.decode(ids, {.invalid_utf8 = InvalidUtf8::kKeep}), text);
  }
  // A model without byte tokens sees U+FFFD, as it would from Python's or Rust's text.
  const Tokenizer words = Tokenizer::load(test::pieces_folder() / "vocab.txt");
  EXPECT_EQ(words.encode("the\xFF sea"), words.encode("the\uFFFD sea"));
}

TEST(PieceStreams, PushesJoinedEqualTheWhole) {
  std::mt19937 random(3);
  for (const char* name : {"bert", "bert_cased", "bert_raw", "llama", "llama_legacy", "gemma",
                           "no_prefix", "t5", "first_word"}) {
    const Tokenizer tokenizer = load_variant(name);
    for (const bool skip : {true, false}) {
      for (int i = 0; i < 300; ++i) {
        Ids ids(random() % 12);
        // Half of them among the first ids, where special and byte tokens are.
        for (int64_t& id : ids) {
          const int64_t some = random() % 2 ? 100 : 260;
          id = static_cast<int64_t>(random()) % (random() % 2 ? some : tokenizer.vocab_size()) %
               tokenizer.vocab_size();
        }
        const DecodeOptions options = {.skip_special = skip};
        StreamDecoder decoder(tokenizer, options);
        std::string joined;
        for (const int64_t id : ids) joined += decoder.push(id);
        joined += decoder.finish();
        ASSERT_EQ(joined, tokenizer.decode(ids, options)) << name;
      }
    }
  }
}

TEST(PieceStreams, TheFirstSpaceGoesOnceAText) {
  const Tokenizer tokenizer = load_model("bpe", "{}");
  const int64_t the = *tokenizer.find(" the");
  StreamDecoder decoder(tokenizer);
  for (int text = 0; text < 2; ++text) {
    EXPECT_EQ(decoder.push(*tokenizer.bos_id()), "");
    EXPECT_EQ(decoder.push(the), "the");
    EXPECT_EQ(decoder.push(the), " the");
    EXPECT_EQ(decoder.finish(), "");
  }
}

/// A real file in the folder that MAINSTEM_MODELS names; empty where it is not.
std::filesystem::path real_file(const std::filesystem::path& name) {
  const char* folder = std::getenv("MAINSTEM_MODELS");
  if (folder == nullptr || !std::filesystem::exists(folder / name)) return {};
  return folder / name;
}

void expect_real_ids(const std::filesystem::path& file, const char* golden_name) {
  const Tokenizer tokenizer = Tokenizer::load(file);
  const json strings = read_golden(std::string("real/") + golden_name)["strings"];
  ASSERT_EQ(strings.size(), 83u);
  for (const auto& entry : strings) {
    EXPECT_EQ(tokenizer.encode(entry["text"].get<std::string>()), entry["ids"].get<Ids>())
        << "text: " << entry["text"];
  }
}

TEST(RealPieces, Gemma3GivesTheIdsOfLlamaCpp) {
  const auto file = real_file("gemma-3-270m-q4_k_m.gguf");
  if (file.empty()) GTEST_SKIP() << "MAINSTEM_MODELS names no folder with Gemma 3";
  expect_real_ids(file, "gemma3_tokenizer.json");
}

TEST(RealPieces, MiniLmGivesTheIdsOfTransformers) {
  const auto file = real_file("all-MiniLM-L6-v2/tokenizer.json");
  if (file.empty()) GTEST_SKIP() << "MAINSTEM_MODELS names no folder with MiniLM";
  expect_real_ids(file, "minilm_tokenizer.json");

  // The same words as a vocab.txt.
  const json vocab = json::parse(std::ifstream(file))["model"]["vocab"];
  std::vector<std::string> words(vocab.size());
  for (const auto& [word, id] : vocab.items()) words.at(id.get<size_t>()) = word;
  std::string lines;
  for (const std::string& word : words) lines += word + "\n";
  const test::TempDir folder;
  test::write_file(folder / "vocab.txt", lines);
  expect_real_ids(folder / "vocab.txt", "minilm_tokenizer.json");
}

}  // namespace
}  // namespace mainstem
