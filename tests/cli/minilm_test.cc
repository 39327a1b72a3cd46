// The commands on a real encoder: all-MiniLM-L6-v2, a BERT in safetensors, compared with
// transformers (tests/generators/make_real.py). Its numbers are of size one; a float64 forward
// differs by 5e-6.

#include <cmath>

#include "cli/run_command.h"
#include "mainstem/safetensors.h"
#include "mainstem/tensor.h"

namespace mainstem::cli_test {
namespace {

constexpr double kLayerBound = 5e-5;
constexpr double kEmbeddingBound = 1e-6;

std::string minilm() { return real_model("all-MiniLM-L6-v2"); }
#define MAINSTEM_NEEDS_MINILM() MAINSTEM_NEEDS(minilm(), "all-MiniLM-L6-v2")

const nlohmann::json& golden() {
  static const nlohmann::json document =
      nlohmann::json::parse(slurp(test_file("golden/real/minilm.json")));
  return document;
}

TEST(MiniLm, InspectSaysAnEncoder) {
  MAINSTEM_NEEDS_MINILM();
  const nlohmann::json model = run_json({"inspect", minilm()});
  EXPECT_EQ(model.at("family"), "bert");
  EXPECT_EQ(model.at("spec").at("stack").at("layers"), 6);
  EXPECT_EQ(model.at("spec").at("head").at("kind"), "none");
}

TEST(MiniLm, EveryLayerIsTransformers) {
  MAINSTEM_NEEDS_MINILM();
  for (const nlohmann::json& sentence : golden().at("sentences")) {
    SCOPED_TRACE(sentence.at("text").get<std::string>());
    const Scratch scratch;
    const std::string out = (scratch / "t.safetensors").string();
    const auto ids = sentence.at("ids").get<std::vector<int64_t>>();
    run_json({"trace", minilm(), "--tokens", joined(ids), "--sites", "embed,blocks.*.resid_post",
              "--compute", "f32", "--out", out});
    const auto file = SafetensorsFile::open(out);
    const nlohmann::json& layers = sentence.at("layers_position0");
    ASSERT_EQ(layers.size(), 7U);
    std::vector<double> values;
    for (size_t n = 0; n < layers.size(); ++n) {
      const std::string site = n == 0 ? "embed" : "blocks." + std::to_string(n - 1) + ".resid_post";
      values = to_f64(file.view(site));
      for (size_t i = 0; i < layers[n].size(); ++i) {
        EXPECT_NEAR(values[i], layers[n][i].get<double>(), kLayerBound) << site << " " << i;
      }
    }
    // The sentence's embedding: the mean over all tokens, divided by its length.
    const std::vector<double> want = sentence.at("embedding").get<std::vector<double>>();
    const size_t width = want.size();
    ASSERT_EQ(values.size(), width * ids.size());
    std::vector<double> mean(width);
    for (size_t i = 0; i < values.size(); ++i) mean[i % width] += values[i];
    double squares = 0;
    for (double value : mean) squares += value * value;
    for (size_t i = 0; i < width; ++i) {
      EXPECT_NEAR(mean[i] / std::sqrt(squares), want[i], kEmbeddingBound) << i;
    }
  }
}

TEST(MiniLm, CheckPasses) {
  MAINSTEM_NEEDS_MINILM();
  const Outcome outcome = run({"check", minilm(), "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace mainstem::cli_test
