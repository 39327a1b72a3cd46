#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "mainstem/tokenizer.h"
#include "models/tokenizer/loaders.h"
#include "models/tokenizer_files.h"

namespace mainstem {
namespace {

using nlohmann::json;
using test::expect_bad_input;

json small() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
    "added_tokens": [{"id": 4, "content": "<s>", "special": true},
                     {"id": 5, "content": "</s>", "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": null, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
}

Tokenizer load_text(const std::string& text, const tokenizer::SideFiles& side = {}) {
  return Tokenizer(tokenizer::from_tokenizer_json(text, side));
}
Tokenizer load_json(const json& file, const tokenizer::SideFiles& side = {}) {
  return load_text(file.dump(), side);
}

TEST(TokenizerJson, ReadsTheSmallOneWithAHole) {
  const Tokenizer tokenizer = load_json(small());
  EXPECT_EQ(tokenizer.vocab_size(), 6);
  EXPECT_EQ(tokenizer.encode("abb<s>"), (std::vector<int64_t>{2, 1, 4}));
  EXPECT_EQ(tokenizer.token_bytes(3), "");
  EXPECT_EQ(tokenizer.find("ab"), 2);
  EXPECT_EQ(tokenizer.find("</s>"), 5);
  EXPECT_EQ(tokenizer.find("x"), std::nullopt);
}

struct Broken {
  const char* what;
  std::function<void(json&)> edit;
  std::vector<std::string> parts;
};

TEST(TokenizerJson, NamesWhatItCannotHonour) {
  const std::vector<Broken> all = {
      {"pre-tokenizer",
       [](json& f) { f["pre_tokenizer"]["type"] = "UnicodeScripts"; },
       {"pre_tokenizer.type", "Sequence, Split, Digits, Punctuation, ByteLevel", "UnicodeScripts"}},
      {"none", [](json& f) { f["pre_tokenizer"] = nullptr; }, {"pre_tokenizer", "ByteLevel"}},
      {"no bytes", [](json& f) { f["pre_tokenizer"] = {{"type", "Digits"}}; }, {"ByteLevel"}},
      {"two",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers", {f["pre_tokenizer"], f["pre_tokenizer"]}}};
       },
       {"ByteLevel", "two"}},
      {"key", [](json& f) { f["pre_tokenizer"]["new"] = 1; }, {"ByteLevel", "new"}},
      {"pattern",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "Split"}, {"pattern", "x"}, {"behavior", "Isolated"}};
       },
       {"Split", "pattern", "Regex"}},
      {"behavior",
       [](json& f) {
         f["pre_tokenizer"] = {
             {"type", "Split"}, {"pattern", {{"String", "x"}}}, {"behavior", "Odd"}};
       },
       {"behavior", "MergedWithNext", "Odd"}},
      {"normalizer",
       [](json& f) { f["normalizer"] = {{"type", "Nmt"}}; },
       {"normalizer.type", "NFC", "Nmt"}},
      {"normalizer key",
       [](json& f) { f["normalizer"] = {{"type", "Lowercase"}, {"locale", "tr"}}; },
       {"Lowercase", "locale"}},
      {"normalizer depth",
       [](json& f) {
         for (int i = 0; i < 12; ++i) {
           f["normalizer"] = {{"type", "Sequence"}, {"normalizers", {f["normalizer"]}}};
         }
         f["normalizer"]["normalizers"].push_back({{"type", "NFC"}});
       },
       {"normalizer"}},
      {"replace",
       [](json& f) { f["normalizer"] = {{"type", "Replace"}, {"content", ""}, {"pattern", "x"}}; },
       {"Replace", "pattern"}},
      {"charsmap",
       [](json& f) {
         f["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAA?"}};
       },
       {"precompiled_charsmap", "base64"}},
      {"charsmap size",
       [](json& f) {
         f["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}};
       },
       {"precompiled_charsmap"}},
      {"metaspace",
       [](json& f) { f["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "ab"}}; },
       {"replacement", "one character"}},
      {"scheme",
       [](json& f) {
         f["pre_tokenizer"] = {
             {"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}};
       },
       {"prepend_scheme", "last"}},
      {"contradiction",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "Metaspace"},
                               {"replacement", "_"},
                               {"prepend_scheme", "always"},
                               {"add_prefix_space", false}};
       },
       {"prepend_scheme", "never"}},
      {"decoder", [](json& f) { f["decoder"] = {{"type", "WordPiece"}}; }, {"decoder.type"}},
      {"decoder kind",
       [](json& f) { f["decoder"] = {{"type", "CTC"}}; },
       {"decoder.type", "WordPiece", "CTC"}},
      {"late replace",
       [](json& f) {
         f["decoder"] = {{"type", "Sequence"},
                         {"decoders", {{{"type", "Fuse"}}, {{"type", "ByteFallback"}}}}};
       },
       {"decoder", "ByteFallback before Fuse"}},
      {"late strip",
       [](json& f) {
         f["decoder"] = {{"type", "Sequence"},
                         {"decoders",
                          {{{"type", "Fuse"}},
                           {{"type", "Strip"}, {"content", " "}, {"start", 0}, {"stop", 1}}}}};
       },
       {"Strip", "at the start"}},
      {"model", [](json& f) { f["model"]["type"] = "WordLevel"; }, {"model.type", "WordLevel"}},
      {"no list", [](json& f) { f["model"]["type"] = "Unigram"; }, {"Unigram", "list"}},
      {"list",
       [](json& f) { f["model"]["vocab"] = json::array({json::array({"a", -1})}); },
       {"BPE", "an object of ids"}},
      {"list entry",
       [](json& f) { f["model"]["vocab"] = json::array({json::array({"a", "b"})}); },
       {"model.vocab entry 0", "[text, score]"}},
      {"long list entry",
       [](json& f) { f["model"]["vocab"] = json::array({json::array({"a", 1, 2})}); },
       {"model.vocab entry"}},
      {"merges of pieces", [](json& f) { f["model"]["type"] = "WordPiece"; }, {"model", "merges"}},
      {"model key", [](json& f) { f["model"]["magic"] = true; }, {"model", "magic"}},
      {"top key", [](json& f) { f["magic"] = true; }, {"tokenizer.json", "magic"}},
      {"dropout", [](json& f) { f["model"]["dropout"] = 0.1; }, {"dropout"}},
      {"fallback", [](json& f) { f["model"]["byte_fallback"] = true; }, {"byte_fallback"}},
      {"suffix",
       [](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; },
       {"end_of_word_suffix", "</w>"}},
      {"unk", [](json& f) { f["model"]["unk_token"] = 3; }, {"unk_token", "string"}},
      {"no model", [](json& f) { f.erase("model"); }, {"model"}},
      {"no vocab",
       [](json& f) {
         f["model"]["vocab"] = json::object();
         f["added_tokens"] = {};
         f["model"]["merges"] = json::array();
       },
       {"vocabulary"}},
      {"vocab kind", [](json& f) { f["model"]["vocab"] = {"a"}; }, {"model.vocab"}},
      {"merges kind", [](json& f) { f["model"]["merges"] = "a b"; }, {"model.merges"}},
      {"id kind", [](json& f) { f["model"]["vocab"]["a"] = "0"; }, {"model.vocab"}},
      {"id float", [](json& f) { f["model"]["vocab"]["a"] = 0.5; }, {"model.vocab"}},
      {"id object", [](json& f) { f["model"]["vocab"]["a"] = json::object(); }, {"model.vocab"}},
      {"id list", [](json& f) { f["model"]["vocab"]["a"] = json::array(); }, {"model.vocab"}},
      {"same id", [](json& f) { f["model"]["vocab"]["a"] = 1; }, {"one token per id", "id 1"}},
      {"negative", [](json& f) { f["model"]["vocab"]["a"] = -1; }, {"id of token", "-1"}},
      {"huge", [](json& f) { f["model"]["vocab"]["a"] = 4294967295u; }, {"4294967295"}},
      {"huger", [](json& f) { f["model"]["vocab"]["a"] = 18446744073709551615u; }, {"id of token"}},
      {"added huge", [](json& f) { f["added_tokens"][0]["id"] = 1 << 30; }, {"<s>", "1073741824"}},
      {"added no id", [](json& f) { f["added_tokens"][0].erase("id"); }, {"added_tokens.id"}},
      {"added long",
       [](json& f) { f["added_tokens"][0]["content"] = std::string(5000, 'x'); },
       {"added token 4", "5000"}},
      {"three",
       [](json& f) { f["model"]["merges"] = json::array({json::array({"a", "b", "a"})}); },
       {"merge 0", "3"}},
      {"one", [](json& f) { f["model"]["merges"] = {json::array({"a"})}; }, {"merge 0", "1"}},
      {"line", [](json& f) { f["model"]["merges"] = {"a b c"}; }, {"merge 0", "a b c"}},
      {"number", [](json& f) { f["model"]["merges"] = {1}; }, {"merge 0"}},
      {"nested",
       [](json& f) { f["model"]["merges"] = json::array({json::array({json::array(), "b"})}); },
       {"merge 0"}},
      {"unknown half",
       [](json& f) { f["model"]["merges"] = json::array({json::array({"a", "c"})}); },
       {"merge 0", "\"c\""}},
      {"unknown whole",
       [](json& f) { f["model"]["merges"] = json::array({json::array({"b", "a"})}); },
       {"joint text"}},
      {"processor",
       [](json& f) { f["post_processor"] = {{"type", "Odd"}}; },
       {"post_processor.type", "Odd"}},
      {"template",
       [](json& f) {
         f["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"SpecialToken", {{"id", "<x>"}}}}}},
                                {"special_tokens", json::object()}};
       },
       {"special_tokens", "<x>"}},
      {"template id",
       [](json& f) {
         f["post_processor"] = {
             {"type", "TemplateProcessing"},
             {"single", {{{"SpecialToken", {{"id", "<x>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
             {"special_tokens", {{"<x>", {{"ids", {99}}}}}}};
       },
       {"id before every text", "99"}},
  };
  for (const Broken& broken : all) {
    SCOPED_TRACE(broken.what);
    json file = small();
    broken.edit(file);
    try {
      load_json(file);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      for (const auto& part : broken.parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
    }
  }
}

TEST(TokenizerJson, RefusesDuplicateKeys) {
  std::string text = small().dump();
  const std::string twice = R"("vocab":{"a":0,"a":3,)";
  text.replace(text.find(R"("vocab":{"a":0,)"), std::string(R"("vocab":{"a":0,)").size(), twice);
  expect_bad_input({"one id for each text", "0 and 3", "\"a\""}, [&] { load_text(text); });
  text = small().dump();
  text.insert(text.find(R"("normalizer")"), R"("decoder":null,)");
  expect_bad_input({"decoder", "twice"}, [&] { load_text(text); });
}

TEST(TokenizerJson, NeverFailsOtherwiseThanWithAnErrorOnAnyPrefix) {
  const std::string text = small().dump();
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(load_text(text.substr(0, length)), Error) << length;
  }
}

TEST(TokenizerJson, TheConfigBesideItNamesTokensAndMayAddThem) {
  json file = small();
  const tokenizer::SideFiles names = {
      .tokenizer_config = R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})"};
  Tokenizer tokenizer = load_json(file, names);
  EXPECT_EQ(tokenizer.bos_id(), 4);
  EXPECT_EQ(tokenizer.eos_id(), 5);
  EXPECT_EQ(tokenizer.end_ids(), (std::vector<int64_t>{5}));
  EXPECT_EQ(tokenizer.encode("a"), (std::vector<int64_t>{0}));

  const tokenizer::SideFiles adding = {
      .tokenizer_config = R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": true})"};
  EXPECT_EQ(load_json(file, adding).encode("a"), (std::vector<int64_t>{4, 0}));

  // A flag that stands there decides, whatever the post-processor says.
  file["post_processor"] = json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"ids": [4]}}})");
  EXPECT_EQ(load_json(file, names).encode("a"), (std::vector<int64_t>{4, 0}));
  const tokenizer::SideFiles not_adding = {.tokenizer_config =
                                               R"({"bos_token": "<s>", "add_bos_token": false})"};
  EXPECT_EQ(load_json(file, not_adding).encode("a"), (std::vector<int64_t>{0}));
}

TEST(TokenizerJson, EndIdsComeFromEveryFile) {
  const tokenizer::SideFiles side = {.generation_config = R"({"eos_token_id": [1, 2, 77]})",
                                     .config = R"({"eos_token_id": 0})"};
  EXPECT_EQ(load_json(small(), side).end_ids(), (std::vector<int64_t>{0, 1, 2, 5}));
}

TEST(TokenizerJson, LoadsFolders) {
  const test::TempDir folder;
  // Not the file's fault: the command does not suit a model without a tokenizer.
  test::expect_error(ErrorCode::kUsage, {"tokenizer.json", "--tokens", folder.path().string()},
                     [&] { Tokenizer::load(folder.path()); });
  test::write_file(folder / "tokenizer.json", small().dump());
  test::write_file(folder / "tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ(Tokenizer::load(folder.path()).eos_id(), 5);
  EXPECT_EQ(Tokenizer::load(folder / "tokenizer.json").eos_id(), 5);
  test::write_file(folder / "tokenizer_config.json", "[]");
  expect_bad_input({"tokenizer_config.json", "an object"}, [&] { Tokenizer::load(folder.path()); });
  test::write_file(folder / "tokenizer.json", "version https://git-lfs.github.com/spec/v1\n");
  expect_bad_input({"LFS"}, [&] { Tokenizer::load(folder.path()); });
  expect_bad_input({"nothing.gguf"}, [&] { Tokenizer::load(folder / "nothing.gguf"); });
}

}  // namespace
}  // namespace mainstem
