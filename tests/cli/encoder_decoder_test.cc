// Encoder-decoders and encoders on the command line: two prompts, two stacks, one vector.

#include <cmath>

#include "cli/run_command.h"
#include "mainstem/safetensors.h"
#include "mainstem/tensor.h"

namespace mainstem::cli_test {
namespace {

std::string tiny(const std::string& name) { return test_file("golden/encoder_decoder/" + name); }

TEST(EncoderDecoder, TraceTakesTwoPrompts) {
  const Scratch scratch;
  for (const char* file : {"t.safetensors", "t.npz"}) {
    const std::string out = (scratch / file).string();
    const Outcome outcome = run(
        {"trace", tiny("marian"), "--tokens", "3,1,4", "--decoder-tokens", "28,2", "--out", out});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  const auto file = SafetensorsFile::open((scratch / "t.safetensors").string());
  EXPECT_EQ(to_f64(file.view("encoder.tokens")), (std::vector<double>{3, 1, 4}));
  EXPECT_EQ(to_f64(file.view("decoder.tokens")), (std::vector<double>{28, 2}));
  EXPECT_EQ(file.view("encoder.blocks.0.scores").shape(), (Shape{1, 2, 3, 3}));
  EXPECT_EQ(file.view("decoder.blocks.0.scores").shape(), (Shape{1, 3, 2, 2}));
  EXPECT_EQ(file.view("decoder.blocks.0.cross_scores").shape(), (Shape{1, 3, 2, 3}));
  EXPECT_EQ(file.view("decoder.blocks.1.cross_k").shape(), (Shape{1, 3, 3, 4}));
}

TEST(EncoderDecoder, PositionsCutTheDecoderAlone) {
  const nlohmann::json made =
      run_json({"trace", tiny("marian"), "--tokens", "3,1,4", "--decoder-tokens", "28,2", "--sites",
                "*.0.q,*cross_k,*cross_q,*head,encoder.tokens", "--positions", "last"});
  EXPECT_EQ(made.at("ids"), (std::vector<int64_t>{3, 1, 4}));
  EXPECT_EQ(made.at("decoder_ids"), (std::vector<int64_t>{28, 2}));
  for (const nlohmann::json& step : made.at("steps")) {
    const std::string site = step.at("site");
    const bool decoder =
        site.ends_with("cross_q") || site == "decoder.blocks.0.q" || site == "decoder.head";
    EXPECT_EQ(step.at("shape")[1], decoder ? 1 : 3) << site;
  }
}

TEST(EncoderDecoder, TheDecoderBeginsWithItsStartToken) {
  const auto trace = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"trace", tiny("marian"), "--tokens",
                                       "3,1",   "--sites",      "decoder.head"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_json(arguments);
  };
  EXPECT_EQ(trace({}), trace({"--decoder-tokens", "28"}));
  EXPECT_NE(trace({}), trace({"--decoder-tokens", "27"}));
  // torch's state dict says nothing of a start.
  const std::string model = tiny("translator");
  EXPECT_TRUE(fails(run({"run", model, "--tokens", "1"}), 2, "--decoder-tokens"));
  EXPECT_TRUE(fails(run({"trace", model, "--tokens", "1"}), 2, "start token"));
  EXPECT_TRUE(
      fails(run({"trace", model, "--tokens", "1", "--decoder-tokens", "29"}), 2, "0 to 28"));
  EXPECT_TRUE(
      fails(run({"trace", tiny("language_model"), "--tokens", "1", "--decoder-tokens", "2"}), 2,
            "--decoder-tokens"));
}

TEST(EncoderDecoder, RunTranslates) {
  const auto file = SafetensorsFile::open(tiny("marian/golden.safetensors"));
  const auto ids = [&](const std::string& name) {
    const auto all = file.view(name).as<int64_t>();
    return std::vector<int64_t>(all.begin(), all.end());
  };
  for (const std::string compute : {"fast", "f32", "f64"}) {
    const nlohmann::json made =
        run_json({"run", tiny("marian"), "--tokens", joined(ids("prompt.1")), "-n", "12",
                  "--compute", compute});
    EXPECT_EQ(made.at("prompt_ids"), ids("prompt.1"));
    EXPECT_EQ(made.at("decoder_ids"), std::vector<int64_t>{28});
    std::vector<int64_t> whole = made.at("decoder_ids");
    for (const int64_t id : made.at("ids")) whole.push_back(id);
    EXPECT_EQ(whole, ids("translation.1")) << compute;
  }
}

TEST(EncoderDecoder, InspectShowsBothStacks) {
  const Outcome outcome = run({"inspect", tiny("marian")});
  for (const char* text : {"encoder blocks 0", "decoder blocks 0,1", "cross-attention",
                           "encoder.blocks.N, N = 0", "decoder.blocks.N, N = 0,1"}) {
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << "\n" << outcome.out;
  }
  const nlohmann::json model = run_json({"inspect", tiny("translator")});
  EXPECT_EQ(model.at("spec").at("encoder").at("layers"), 2);
  EXPECT_EQ(model.at("spec").at("stack").at("layers"), 1);
}

TEST(EncoderDecoder, CheckPasses) {
  for (const char* name : {"marian", "translator", "language_model", "layers"}) {
    const Outcome outcome = run({"check", tiny(name), "--json"});
    EXPECT_EQ(outcome.code, 0) << name << outcome.out << outcome.err;
  }
}

TEST(Embed, TokensOfAnEncoder) {
  const nlohmann::json made =
      run_json({"embed", tiny("layers"), "--tokens", "1,2,3", "--tokens", "4", "--normalize"});
  EXPECT_EQ(made.at("ids"), (std::vector<std::vector<int64_t>>{{1, 2, 3}, {4}}));
  ASSERT_EQ(made.at("embeddings").size(), 2U);
  for (const nlohmann::json& vector : made.at("embeddings")) {
    double squares = 0;
    for (const double value : vector) squares += value * value;
    EXPECT_EQ(vector.size(), 12U);
    EXPECT_NEAR(squares, 1, 1e-6);
  }
  EXPECT_EQ(made.at("pooling"), "mean");
  const Outcome text = run({"embed", tiny("layers"), "--tokens", "1,2,3", "--pooling", "cls"});
  EXPECT_NE(text.err.find("cls"), std::string::npos) << text.err;
}

TEST(Embed, UsageErrors) {
  EXPECT_TRUE(fails(run({"embed", tiny("layers")}), 2, "-p TEXT"));
  EXPECT_TRUE(fails(run({"embed", tiny("layers"), "-p", "a", "--tokens", "1"}), 2, "several"));
  EXPECT_TRUE(fails(run({"embed", tiny("layers"), "-p", "a"}), 2, "--tokens"));
  EXPECT_TRUE(fails(run({"embed", tiny("layers"), "--tokens", "1,x"}), 2, "'x'"));
  EXPECT_TRUE(fails(run({"embed", tiny("layers"), "--tokens", "99"}), 2, "28"));
  EXPECT_TRUE(fails(run({"embed", tiny("language_model"), "--tokens", "1"}), 2, "decoder"));
  EXPECT_TRUE(fails(run({"embed", tiny("marian"), "--tokens", "1"}), 2, "encoder-decoder"));
}

/// all-MiniLM-L6-v2 against transformers (absolute, as its float32 and float64 differ by 1e-7).
TEST(Embed, MiniLmIsTransformers) {
  const char* models = std::getenv("MAINSTEM_MODELS");
  const std::string model = std::string(models == nullptr ? "" : models) + "/all-MiniLM-L6-v2";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << "MAINSTEM_MODELS has no all-MiniLM-L6-v2";
  const nlohmann::json golden =
      nlohmann::json::parse(slurp(test_file("golden/real/minilm.json"))).at("sentences");
  std::vector<std::string> arguments{"embed", model};
  for (const nlohmann::json& sentence : golden) {
    arguments.insert(arguments.end(), {"-p", sentence.at("text")});
  }
  const nlohmann::json made = run_json(arguments);
  ASSERT_EQ(made.at("embeddings").size(), golden.size());
  for (size_t i = 0; i < golden.size(); ++i) {
    EXPECT_EQ(made.at("ids")[i], golden[i].at("ids")) << i;
    const std::vector<double> got = made.at("embeddings")[i], want = golden[i].at("embedding");
    ASSERT_EQ(got.size(), want.size());
    for (size_t d = 0; d < want.size(); ++d) EXPECT_NEAR(got[d], want[d], 1e-6) << i << " " << d;
  }
}

}  // namespace
}  // namespace mainstem::cli_test
