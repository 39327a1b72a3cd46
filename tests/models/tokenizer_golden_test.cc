// Ids against the tokenizers library 0.23.3 (tests/generators/make_tokenizers.py) and, for the
// real SmolLM2, against llama.cpp.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "mainstem/gguf.h"
#include "mainstem/tokenizer.h"
#include "models/tokenizer/loaders.h"
#include "models/tokenizer_files.h"

namespace mainstem {
namespace {

using nlohmann::json;

using test::read_golden;

/// base.json with a variant's changes, as make_tokenizers.py makes it.
json make_variant(const json& variant) {
  json result = read_golden("tokenizers/base.json");
  for (const auto& [section, value] : variant["overrides"].items()) {
    if (section == "model") {
      result["model"].update(value);
    } else {
      result[section] = value;
    }
  }
  const auto is_gone = [&](const std::string& token) {
    for (const auto& part : variant["without"]) {
      if (token.find(part.get<std::string>()) != std::string::npos) return true;
    }
    return false;
  };
  json vocab = json::object();
  for (const auto& [token, id] : result["model"]["vocab"].items()) {
    if (!is_gone(token)) vocab[token] = id;
  }
  json merges = json::array();
  for (const auto& pair : result["model"]["merges"]) {
    if (!is_gone(pair[0]) && !is_gone(pair[1])) merges.push_back(pair);
  }
  result["model"]["vocab"] = vocab;
  result["model"]["merges"] = merges;
  return result;
}

Tokenizer tokenizer_of(const json& file) {
  return Tokenizer(tokenizer::from_tokenizer_json(file.dump(), {}));
}

class Variant : public testing::TestWithParam<std::string> {};

TEST_P(Variant, GivesTheIdsOfTheTokenizersLibrary) {
  const json variant = read_golden("tokenizers/variants.json").at(GetParam());
  const Tokenizer tokenizer = tokenizer_of(make_variant(variant));
  ASSERT_GT(variant["cases"].size(), 100u);
  for (const auto& entry : variant["cases"]) {
    const auto text = entry[0].get<std::string>();
    EXPECT_EQ(tokenizer.encode(text, {.missing_byte = MissingByte::kDrop}),
              entry[1].get<std::vector<int64_t>>())
        << "text: " << entry[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Structures, Variant,
                         testing::Values("gpt2", "smollm", "llama3", "qwen2", "o200k", "bloom",
                                         "falcon", "prefix_space", "prefix_space_late", "roberta",
                                         "added_flags", "behaviors", "inverted", "merged_next",
                                         "lines", "unknown", "unknown_fused", "dropped"),
                         [](const auto& test) { return test.param; });

TEST(TokenizerGolden, EveryVariantOfTheFileIsTested) {
  EXPECT_EQ(read_golden("tokenizers/variants.json").size(), 18u);
}

TEST(TokenizerGolden, MergesAsLinesAndAsPairsAreTheSame) {
  const json variant = read_golden("tokenizers/variants.json").at("gpt2");
  json file = make_variant(variant);
  for (auto& merge : file["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const Tokenizer tokenizer = tokenizer_of(file);
  for (const auto& entry : variant["cases"]) {
    EXPECT_EQ(tokenizer.encode(entry[0].get<std::string>()), entry[1].get<std::vector<int64_t>>());
  }
}

TEST(TokenizerGolden, DecodingGivesTheTextBack) {
  const json variants = read_golden("tokenizers/variants.json");
  for (const char* name : {"gpt2", "smollm", "llama3", "falcon", "o200k"}) {
    const Tokenizer tokenizer = tokenizer_of(make_variant(variants.at(name)));
    for (const auto& entry : variants.at(name)["cases"]) {
      const auto text = entry[0].get<std::string>();
      const auto ids = tokenizer.encode(text, {.add_special = false});
      EXPECT_EQ(tokenizer.decode(ids, {.skip_special = false}), text) << name;
    }
  }
}

class GgufPre : public testing::TestWithParam<std::string> {};

TEST_P(GgufPre, GivesTheIdsOfLlamaCpp) {
  test::GgufTokenizer parts = test::GgufTokenizer::base();
  parts.pre = GetParam();
  const std::string bytes = parts.builder().build();
  const auto file = GgufFile::from_bytes(test::as_bytes(bytes), "test.gguf");
  const Tokenizer tokenizer = Tokenizer::from_gguf(file);
  const json cases = read_golden("tokenizers/gguf_pre.json").at(GetParam());
  ASSERT_GT(cases.size(), 100u);
  for (const auto& entry : cases) {
    EXPECT_EQ(tokenizer.encode(entry[0].get<std::string>()), entry[1].get<std::vector<int64_t>>())
        << "text: " << entry[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Names, GgufPre,
                         testing::Values("gpt-2", "phi-2", "olmo", "llama-bpe", "llama3",
                                         "llama-v3", "dbrx", "qwen2", "stablelm2", "smollm",
                                         "command-r", "starcoder", "refact", "falcon", "mpt",
                                         "falcon3", "deepseek-r1-qwen"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

/// The real file is too large for the repository. MAINSTEM_MODELS names the folder that holds it.
class SmolLm2 : public testing::Test {
 protected:
  static constexpr const char* kFile = "SmolLM2-135M-Instruct.Q4_1.gguf";

  void SetUp() override {
    const char* folder = std::getenv("MAINSTEM_MODELS");
    if (folder == nullptr) {
      GTEST_SKIP() << "set MAINSTEM_MODELS to the folder that holds " << kFile;
    }
    path_ = std::filesystem::path(folder) / kFile;
    ASSERT_TRUE(std::filesystem::exists(path_)) << path_;
  }
  std::filesystem::path path_;
};

TEST_F(SmolLm2, GivesTheIdsOfLlamaCpp) {
  const Tokenizer tokenizer = Tokenizer::load(path_);
  const json strings = read_golden("real/smollm2_tokenizer.json")["strings"];
  ASSERT_EQ(strings.size(), 83u);
  for (const auto& entry : strings) {
    EXPECT_EQ(tokenizer.encode(entry["text"].get<std::string>()),
              entry["ids"].get<std::vector<int64_t>>())
        << "text: " << entry["text"];
  }
}

TEST_F(SmolLm2, KnowsItsSpecialTokens) {
  const Tokenizer tokenizer = Tokenizer::load(path_);
  EXPECT_EQ(tokenizer.vocab_size(), 49152);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.unknown_id(), 0);
  EXPECT_EQ(tokenizer.padding_id(), 2);
  EXPECT_EQ(tokenizer.end_ids(), (std::vector<int64_t>{0, 2}));
  EXPECT_TRUE(tokenizer.prefix_ids().empty());
  EXPECT_EQ(tokenizer.find("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer.piece(*tokenizer.find(" world")), " world");
}

TEST_F(SmolLm2, ReportsBytesThatTheVocabularyLacks) {
  const Tokenizer tokenizer = Tokenizer::load(path_);
  test::expect_bad_input({"0x04", "take it out"}, [&] { tokenizer.encode("end\x04"); });
  EXPECT_EQ(tokenizer.encode("end\x04", {.missing_byte = MissingByte::kDrop}),
            tokenizer.encode("end"));
}

}  // namespace
}  // namespace mainstem
