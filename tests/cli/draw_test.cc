// The command that draws blocks, and the drawings of the documentation.

#include "cli/run_command.h"
#include "support/xml.h"

namespace mainstem::cli_test {
namespace {

using mainstem::testing::is_well_formed;

const std::vector<std::string> kBlock{"draw",    "--block", "--width", "512",
                                      "--heads", "8",       "--rotary"};

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Draw, SvgGoesToStandardOutputOrAFile) {
  const Scratch scratch;
  const std::string file = (scratch / "block.svg").string();
  const Outcome direct = run(kBlock);
  EXPECT_EQ(direct.code, 0) << direct.err;
  EXPECT_TRUE(is_well_formed(direct.out));
  const Outcome to_file = run(with(kBlock, {"--out", file}));
  EXPECT_EQ(to_file.code, 0) << to_file.err;
  EXPECT_EQ(to_file.out, "");
  EXPECT_EQ(slurp(file), direct.out);
}

TEST(Draw, JsonHoldsTheDrawingOrNamesItsFile) {
  const Scratch scratch;
  const std::string file = (scratch / "block.txt").string();
  const nlohmann::json svg = run_json(kBlock);
  EXPECT_EQ(svg.at("svg"), run(kBlock).out);
  EXPECT_EQ(svg.at("layer"), 0);
  const nlohmann::json text = run_json(with(kBlock, {"--text", "--out", file}));
  EXPECT_EQ(text.at("out"), file);
  EXPECT_EQ(slurp(file), run(with(kBlock, {"--text"})).out);
}

TEST(Draw, AModelsBlocks) {
  const std::string model = test_file("golden/tiny_llama");
  const Outcome text = run({"draw", model, "--layer", "2", "--text"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.err, "");  // all blocks are of one kind
  EXPECT_TRUE(text.out.starts_with("tiny_llama, block 2")) << text.out.substr(0, 80);
  for (const char* step : {"Linear + bias", "RoPE llama3", "q·kᵀ × 0.3162", "[B,T,K=2,E=10]",
                           "mlp_value", "attn_proj = attn_out"}) {
    EXPECT_NE(text.out.find(step), std::string::npos) << step;
  }
  EXPECT_EQ(run_json({"draw", model}).at("kinds"), (std::vector<std::vector<int64_t>>{{0, 1, 2}}));
  EXPECT_TRUE(fails(run({"draw", model, "--layer", "3"}), 2, "0 to 2"));
  EXPECT_TRUE(fails(run({"draw", model, "--out", "/no/such/folder/b.svg"}), 3, "/no/such/folder"));
}

TEST(Draw, PublishedSizes) {
  const nlohmann::json names = run_json({"inspect", "--family", "list"}).at("families");
  EXPECT_GT(names.size(), 25U);
  for (const nlohmann::json& each : names) {
    const std::string name = each.at("name");
    const Outcome text = run({"draw", "--family", name, "--text"});
    EXPECT_EQ(text.code, 0) << name << text.err;
    EXPECT_TRUE(text.out.starts_with(name + ", block 0")) << text.out.substr(0, 80);
    EXPECT_TRUE(is_well_formed(run({"draw", "--family", name}).out)) << name;
  }
  const Outcome base = run({"draw", "--family", "transformer-base", "--text"});
  for (const char* part : {"encoder", "decoder", "cross_scores", "q·kᵀ × 0.125", "LayerNorm"}) {
    EXPECT_NE(base.out.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(run_json({"draw", "--family", "transformer-base"}).at("encoder_kinds"),
            (std::vector<std::vector<int64_t>>{{0, 1, 2, 3, 4, 5}}));
  const Outcome gemma = run({"draw", "--family", "gemma-2-2b", "--layer", "1", "--text"});
  EXPECT_NE(gemma.out.find("gemma-2-2b, block 1"), std::string::npos);
  EXPECT_NE(gemma.out.find("softmax, causal"), std::string::npos);  // its window is on even blocks
  EXPECT_NE(gemma.err.find("--layer 0"), std::string::npos) << gemma.err;
  const auto norm = [](std::vector<std::string> more) {
    return run(with({"draw", "--family", "palm-8b", "--text"}, more)).out;
  };
  EXPECT_NE(norm({}).find("LayerNorm"), std::string::npos);
  EXPECT_NE(norm({"--norm", "rms"}).find("RMSNorm"), std::string::npos);
}

TEST(Draw, TwoBlocksAsTextMarkWhatDiffers) {
  const Outcome both = run(with(kBlock, {"--text", "--against", "--placement", "post"}));
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_NE(both.out.find("pre-norm, RMSNorm"), std::string::npos);
  EXPECT_NE(both.out.find("post-norm, RMSNorm"), std::string::npos);
  EXPECT_NE(both.out.find("≠┐"), std::string::npos);
}

/// docs/lesson.md shows them with these commands.
TEST(Draw, TheLessonsDiagramsAreTheCommands) {
  const std::string images = test_file("../docs/images/");
  EXPECT_EQ(run(with(kBlock, {"--against", "--placement", "post"})).out,
            slurp(images + "pre_norm_post_norm.svg"));
  EXPECT_EQ(run(with(kBlock, {"--mlp", "gelu", "--against", "--mlp", "swiglu"})).out,
            slurp(images + "gelu_swiglu.svg"));
}

}  // namespace
}  // namespace mainstem::cli_test
