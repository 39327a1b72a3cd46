// `inspect --block`: the shapes and counts that exercises 2 and 3 of the lesson ask for.

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "cli/run_command.h"

namespace mainstem::cli_test {
namespace {

std::map<std::string, nlohmann::json> by_name(const nlohmann::json& list, const char* key) {
  std::map<std::string, nlohmann::json> result;
  for (const nlohmann::json& each : list) result[each.at(key)] = each;
  return result;
}

TEST(Block, SwiGluAtWidth512) {
  const nlohmann::json block = run_json({"inspect", "--block", "--width", "512", "--heads", "8"});
  auto weights = by_name(block.at("weights"), "name");
  EXPECT_EQ(weights["mlp_gate+mlp_value.weight"].at("shape"), (std::vector<int64_t>{2048, 512}));
  EXPECT_EQ(weights["mlp_proj.weight"].at("shape"), (std::vector<int64_t>{512, 1024}));
  EXPECT_EQ(weights["attn_norm.weight"].at("parameters"), 512);
  EXPECT_EQ(weights.count("attn_norm.bias"), 0U);
  EXPECT_EQ(block.at("mlp_parameters"), 6 * 512 * 512);
  EXPECT_EQ(block.at("mlp_parameters_in_widths"), "6D²");
  auto sites = by_name(block.at("sites"), "site");
  EXPECT_EQ(sites["blocks.0.mlp_gate"].at("shape"), (std::vector<std::string>{"B", "T", "F"}));
  EXPECT_EQ(sites["blocks.0.mlp_gate"].at("size")[2], 1024);
}

TEST(Block, LayerNormAndGeluAgainstTheDefault) {
  const std::vector<std::vector<std::string>> spellings = {
      {"--against", "--norm", "layer", "--mlp", "gelu"}, {"--against", "--norm layer --mlp gelu"}};
  for (const auto& spelling : spellings) {
    std::vector<std::string> arguments{"inspect", "--block", "--width", "512", "--heads", "8"};
    arguments.insert(arguments.end(), spelling.begin(), spelling.end());
    const nlohmann::json both = run_json(arguments);
    EXPECT_EQ(both.at("against").at("mlp_parameters"), 8 * 512 * 512);
    auto differs = by_name(both.at("differences"), "site");
    std::set<std::string> sites;
    for (const auto& [site, difference] : differs) sites.insert(site.substr(9));
    EXPECT_EQ(sites, (std::set<std::string>{"attn_norm", "mlp_norm", "mlp_gate", "mlp_value",
                                            "mlp_pre", "mlp_act", "mlp_hidden", "mlp_proj"}));
    const nlohmann::json& norm = differs["blocks.0.attn_norm"];
    EXPECT_EQ(norm.at("first").at("parameters"), 512);
    EXPECT_EQ(norm.at("second").at("parameters"), 1024);
    EXPECT_TRUE(differs["blocks.0.mlp_pre"].at("first").is_null());
    // The residual structure stays identical.
    EXPECT_EQ(differs.count("blocks.0.resid_mid"), 0U);
    EXPECT_EQ(differs.count("blocks.0.resid_post"), 0U);
  }
}

TEST(Block, EveryPlacementAndMlpCanBeSaid) {
  for (const char* placement : {"pre", "post", "sandwich", "output-only"}) {
    for (const char* mlp : {"swiglu", "geglu", "reglu", "gelu", "gelu-erf", "relu", "silu"}) {
      const nlohmann::json block =
          run_json({"inspect", "--block", "--width", "32", "--heads", "4", "--kv-heads", "2",
                    "--placement", placement, "--mlp", mlp, "--bias", "--rotary"});
      EXPECT_EQ(block.at("spec").at("placement"), placement);
      EXPECT_GT(block.at("parameters"), 0);
    }
  }
}

TEST(Block, EveryNameThatAFormulaUsesIsAStep) {
  const std::vector<std::string> block{"inspect", "--block", "--width", "64", "--heads", "2"};
  const std::string text = run(block).out;
  EXPECT_NE(text.find("= attn_proj\n"), std::string::npos) << text;
  EXPECT_NE(text.find("= mlp_proj\n"), std::string::npos) << text;
  auto sites = by_name(run_json(block).at("sites"), "site");
  EXPECT_EQ(sites["blocks.0.attn_out"].at("same_as"), "blocks.0.attn_proj");
  EXPECT_EQ(sites["blocks.0.mlp_out"].at("parameters"), 0);
  std::vector<std::string> plain = block;
  plain.insert(plain.end(), {"--mlp", "gelu"});
  EXPECT_NE(run(plain).out.find("= mlp_act\n"), std::string::npos);
  // Where a norm follows attention, attn_out is a value of its own.
  std::vector<std::string> against = block;
  against.insert(against.end(), {"--against", "--placement", "sandwich"});
  auto differs = by_name(run_json(against).at("differences"), "site");
  EXPECT_EQ(differs["blocks.0.attn_out"].at("first").at("same_as"), "blocks.0.attn_proj");
  EXPECT_FALSE(differs["blocks.0.attn_out"].at("second").contains("same_as"));
  EXPECT_NE(run(against).out.find("= attn_proj\n"), std::string::npos);
}

TEST(Block, MaskAndEpsCanBeSaid) {
  const std::vector<std::string> block{"inspect", "--block", "--width", "64"};
  const auto spec = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = block;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_json(arguments).at("spec");
  };
  EXPECT_EQ(spec({}).at("attention").at("mask"), "causal");
  EXPECT_EQ(spec({"--full"}).at("attention").at("mask"), "full");
  EXPECT_EQ(spec({"--causal"}).at("attention").at("mask"), "causal");
  EXPECT_EQ(spec({}).at("norm").at("eps"), 1e-6);
  EXPECT_EQ(spec({"--eps", "1e-3"}).at("norm").at("eps"), 1e-3);
}

TEST(Block, TextFitsEightyColumns) {
  for (const char* option : {"--bias", "--against"}) {
    std::vector<std::string> arguments{"inspect", "--block", "--width", "512", option};
    if (option == std::string("--against")) arguments.insert(arguments.end(), {"--mlp", "gelu"});
    std::istringstream lines(run(arguments).out);
    for (std::string line; std::getline(lines, line);) {
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // code points
      });
      EXPECT_LE(columns, 80) << line;
    }
  }
}

}  // namespace
}  // namespace mainstem::cli_test
