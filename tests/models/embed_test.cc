// Embeddings of a tiny encoder, a list of torch layers (tests/generators/make_encoder_decoder.py),
// and the files that say how texts are embedded.

#include "mainstem/embed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "mainstem/error.h"
#include "mainstem/safetensors.h"
#include "support/bounds.h"
#include "support/compare.h"

namespace mainstem::testing {
namespace {

namespace fs = std::filesystem;
constexpr double kEps64 = std::numeric_limits<double>::epsilon();
constexpr double kEps32 = std::numeric_limits<float>::epsilon();
constexpr size_t kWidth = 12;
using Texts = std::vector<std::vector<int64_t>>;

const fs::path kGolden = fs::path(MAINSTEM_TEST_DATA) / "golden" / "encoder_decoder";

/// A folder of its own with a case's config and weights.
class Folder {
 public:
  explicit Folder(const std::string& name = "layers") {
    std::string pattern = (fs::temp_directory_path() / "embed_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy_file(kGolden / name / file, path_ / file);
    }
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  Model model() const { return Model::load(path_); }
  EmbeddingRules rules() const { return read_embedding_rules(model()); }
  std::string refusal() const {
    try {
      rules();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.what();
    }
    return "accepted";
  }

 private:
  fs::path path_;
};

std::string refusal(const Model& model, const Texts& ids) {
  try {
    embed(model, ids, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
    return error.what();
  }
  return "accepted";
}

struct Layers {
  Model model = Model::load(kGolden / "layers");
  SafetensorsFile golden = SafetensorsFile::open(kGolden / "layers" / "golden.safetensors");
  std::vector<int64_t> ids() const {
    const auto all = golden.view("tokens").as<int64_t>();
    return {all.begin(), all.end()};
  }
  std::vector<double> rows() const { return to_f64(golden.view("blocks.1.resid_post")); }

  std::vector<double> run(EmbeddingRules rules, Compute compute = Compute::kF64) const {
    return embed(model, Texts{ids()}, {.rules = std::move(rules), .compute = compute}).front();
  }
};

TEST(Embed, PoolsTheLastRows) {
  const Layers layers;
  const std::vector<double> rows = layers.rows();
  const size_t tokens = rows.size() / kWidth;
  std::vector<double> sum(kWidth), most(kWidth, -std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < rows.size(); ++i) {
    sum[i % kWidth] += rows[i];
    most[i % kWidth] = std::max(most[i % kWidth], rows[i]);
  }
  const auto over = [&](double divisor) {
    std::vector<double> result = sum;
    for (double& value : result) value /= divisor;
    return result;
  };
  const std::vector<double> first(rows.begin(), rows.begin() + kWidth);
  const double bound = bounds::end_to_end(kEps64, 2);
  const auto count = static_cast<double>(tokens);
  EXPECT_TRUE(close(layers.run({.pooling = Pooling::kMean}), over(count), bound));
  EXPECT_TRUE(close(layers.run({.pooling = Pooling::kMeanSqrtLen}), over(std::sqrt(count)), bound));
  EXPECT_TRUE(close(layers.run({.pooling = Pooling::kMax}), most, bound));
  EXPECT_TRUE(close(layers.run({.pooling = Pooling::kCls}), first, bound));
  EXPECT_TRUE(close(layers.run({.pooling = Pooling::kMean}, Compute::kF32), over(count),
                    bounds::end_to_end(kEps32, 2)));
}

TEST(Embed, NormalisedMeansOfLengthOne) {
  const Layers layers;
  const std::vector<double> plain = layers.run({});
  const std::vector<double> unit = layers.run({.normalize = true});
  double squares = 0;
  for (const double value : plain) squares += value * value;
  EXPECT_GT(std::abs(squares - 1), 0.1);
  std::vector<double> want = plain;
  for (double& value : want) value /= std::sqrt(squares);
  EXPECT_TRUE(close(unit, want, 4 * kEps64));
}

/// Neither the texts beside a text nor the passes they are put into change its vector.
TEST(Embed, TextsDoNotSeeEachOther) {
  const Layers layers;
  const Texts texts = {{1}, {2, 3, 4, 5, 6, 7}, {8, 9}, {1}, {28, 0, 5}};
  for (const Compute compute : {Compute::kF64, Compute::kF32}) {
    std::vector<int64_t> seen;
    const auto together = embed(layers.model, texts,
                                {.rules = {},
                                 .compute = compute,
                                 .pass_tokens = 8,
                                 .progress = [&](int64_t done, int64_t total) {
                                   EXPECT_EQ(total, 5);
                                   seen.push_back(done);
                                 }});
    EXPECT_EQ(seen, (std::vector<int64_t>{2, 5}));
    ASSERT_EQ(together.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto alone = embed(layers.model, Texts{texts[i]}, {.rules = {}, .compute = compute});
      EXPECT_TRUE(close(together[i], alone[0],
                        bounds::end_to_end(compute == Compute::kF64 ? kEps64 : kEps32, 2)))
          << i;
    }
    EXPECT_EQ(together[0], together[3]);
  }
}

TEST(Embed, OnlyEncodersAndOnlyTokens) {
  EXPECT_NE(refusal(Model::load(kGolden / "language_model"), {{1}}).find("decoder"),
            std::string::npos);
  EXPECT_NE(refusal(Model::load(kGolden / "translator"), {{1}}).find("encoder-decoder"),
            std::string::npos);
  const Model model = Model::load(kGolden / "layers");
  EXPECT_NE(refusal(model, {{1}, {}}).find("one token"), std::string::npos);
  EXPECT_NE(refusal(model, {{1}, {29}}).find("28"), std::string::npos);
  EXPECT_TRUE(embed(model, {}, {}).empty());
}

/// The head is not run, and its place in the program changes nothing.
TEST(Embed, AModelWithAHead) {
  const Folder folder("language_model");
  std::ifstream in(kGolden / "language_model" / "config.json");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t at = text.find("\"causal\": true");
  ASSERT_NE(at, std::string::npos);
  folder.write("config.json", text.replace(at, 14, "\"causal\": false"));
  const Model model = folder.model();
  ASSERT_EQ(model.spec().head.kind, HeadKind::kLinear);
  Session session(model.bound(),
                  {.compute = Compute::kF64, .threads = 1, .sites = {*parse_site("final_norm")}});
  const SequenceInput input{.sequence = session.add_sequence(), .tokens = {4, 5, 6}};
  std::vector<double> rows;
  session.forward_all({&input, 1}, [&](const TraceEvent& event) { rows = to_f64(event.value); });
  const auto got = embed(model, Texts{input.tokens},
                         {.rules = {.pooling = Pooling::kCls}, .compute = Compute::kF64});
  rows.resize(kWidth);
  EXPECT_TRUE(close(got[0], rows, bounds::end_to_end(kEps64, 2)));
}

constexpr const char* kModules = R"([
  {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
  {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";

TEST(EmbeddingRules, OfTheFiles) {
  const Folder folder;
  const EmbeddingRules none = folder.rules();
  EXPECT_EQ(none.pooling, Pooling::kMean);
  EXPECT_FALSE(none.normalize);
  EXPECT_TRUE(none.source.empty());
  EXPECT_EQ(none.max_tokens, 0);

  folder.write("modules.json", kModules);
  folder.write("1_Pooling/config.json",
               R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 256, "do_lower_case": false})");
  const EmbeddingRules rules = folder.rules();
  EXPECT_EQ(rules.pooling, Pooling::kCls);
  EXPECT_TRUE(rules.normalize);
  EXPECT_EQ(rules.max_tokens, 256);
  EXPECT_NE(rules.source.find("1_Pooling/config.json"), std::string::npos);

  folder.write("1_Pooling/config.json", R"({"pooling_mode": "max"})");
  EXPECT_EQ(folder.rules().pooling, Pooling::kMax);
  folder.write("1_Pooling/config.json", "{}");  // the class's default
  EXPECT_EQ(folder.rules().pooling, Pooling::kMean);
  folder.write("sentence_bert_config.json", "{}");
  folder.write("tokenizer_config.json", R"({"model_max_length": 128})");
  EXPECT_EQ(folder.rules().max_tokens, 128);
  folder.write("tokenizer_config.json", R"({"model_max_length": 1e30})");
  EXPECT_EQ(folder.rules().max_tokens, 0);
  folder.write("config_sentence_transformers.json",
               R"({"prompts": {"query": "query: "}, "default_prompt_name": "query"})");
  EXPECT_EQ(folder.rules().prompt, "query: ");
}

TEST(EmbeddingRules, WhatCannotBeDoneIsRefused) {
  const Folder folder;
  const auto with = [&](const std::string& file, const std::string& text) {
    folder.write(file, text);
    return folder.refusal();
  };
  EXPECT_NE(with("modules.json", R"([{"type": "sentence_transformers.models.Transformer"}])")
                .find("Pooling"),
            std::string::npos);
  EXPECT_NE(with("modules.json", R"({"a": 1})").find("list"), std::string::npos);
  EXPECT_NE(with("modules.json", R"([{"type": "x.Pooling", "path": "1_Pooling"},
                                     {"type": "x.Dense", "path": "2_Dense"}])")
                .find("Dense"),
            std::string::npos);
  folder.write("modules.json", kModules);
  EXPECT_NE(with("1_Pooling/config.json", R"({"pooling_mode": "lasttoken"})").find("lasttoken"),
            std::string::npos);
  EXPECT_NE(with("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})").find("and"),
            std::string::npos);  // beside the default, the mean
  folder.write("1_Pooling/config.json", "{}");
  EXPECT_NE(with("sentence_bert_config.json", R"({"do_lower_case": true})").find("do_lower_case"),
            std::string::npos);
  folder.write("sentence_bert_config.json", "{}");
  EXPECT_NE(with("config_sentence_transformers.json", R"({"default_prompt_name": "q"})")
                .find("default_prompt_name"),
            std::string::npos);
}

}  // namespace
}  // namespace mainstem::testing
