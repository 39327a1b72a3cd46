// Published sizes, counted from the steps of their programs.

#include "mainstem/presets.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>

#include "mainstem/error.h"
#include "mainstem/program.h"

namespace mainstem::testing {
namespace {

int64_t parameters(const std::string& name) {
  return count(build_program(find_preset(name).spec), 0).parameters;
}

TEST(Presets, CountThePublishedParameters) {
  const std::map<std::string, int64_t> published = {
      {"bert-base", 109482240},         {"bert-large", 335141888},   {"gpt2", 124439808},
      {"gpt2-medium", 354823168},       {"gpt2-large", 774030080},   {"gpt2-xl", 1557611200},
      {"gpt3-175b", 174604259328},      {"llama-2-7b", 6738415616},  {"llama-2-13b", 13015864320},
      {"llama-2-70b", 68976648192},     {"llama-3-8b", 8030261248},  {"llama-3-70b", 70553706496},
      {"llama-3.1-405b", 405853388800}, {"mistral-7b", 7241732096},  {"gemma-2b", 2506172416},
      {"gemma-7b", 8537680896},         {"gemma-2-2b", 2614341888},  {"gemma-2-9b", 9241705984},
      {"gemma-2-27b", 27227128320},     {"gemma-3-270m", 268098176}, {"gemma-3-1b", 999885952},
  };
  for (const auto& [name, wanted] : published) EXPECT_EQ(parameters(name), wanted) << name;
}

/// Papers give these rounded.
TEST(Presets, CountWhatPapersRound) {
  const std::map<std::string, std::pair<double, double>> rounded = {
      {"transformer-base", {65e6, 0.05}}, {"transformer-big", {213e6, 0.05}},
      {"palm-8b", {8.63e9, 0.01}},        {"palm-62b", {62.50e9, 0.01}},
      {"palm-540b", {540.35e9, 0.01}},
  };
  for (const auto& [name, wanted] : rounded) {
    const auto found = static_cast<double>(parameters(name));
    EXPECT_LE(std::abs(found - wanted.first), wanted.second * wanted.first) << name << " " << found;
  }
}

/// By hand: one table; per layer the projections of one or two attentions, the MLP and the norms.
TEST(Presets, TheOriginalTransformerSharesOneTable) {
  const auto by_hand = [](int64_t d, int64_t f) {
    const int64_t attention = 4 * (d * d + d), mlp = 2 * d * f + f + d, norm = 2 * d;
    return 37000 * d + 6 * (attention + mlp + 2 * norm) + 6 * (2 * attention + mlp + 3 * norm);
  };
  EXPECT_EQ(parameters("transformer-base"), by_hand(512, 2048));
  EXPECT_EQ(parameters("transformer-big"), by_hand(1024, 4096));
  const ModelSpec spec = find_preset("transformer-base").spec;
  ASSERT_TRUE(spec.encoder);
  EXPECT_FALSE(spec.encoder->final_norm || spec.stack.final_norm);
  EXPECT_EQ(spec.stack.blocks[0].placement, NormPlacement::kPost);
  EXPECT_EQ(spec.stack.positions, PositionKind::kSinusoidalInterleaved);
}

/// Every preset has one row in the docs, with the count that its program gives.
TEST(Presets, DocsTableIsTrue) {
  std::ifstream file(MAINSTEM_TEST_DATA "/../docs/presets.md");
  ASSERT_TRUE(file) << "docs/presets.md";
  std::map<std::string, std::string> documented;
  const std::regex row(R"(\| `([^`]+)` \| [^|]* \| ([0-9,]+) \|.*)");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (std::regex_match(line, match, row)) documented[match[1]] = match[2];
  }
  for (const std::string& name : preset_names()) {
    std::string digits = documented[name];
    std::erase(digits, ',');
    EXPECT_EQ(digits, std::to_string(parameters(name))) << name;
  }
  EXPECT_EQ(documented.size(), preset_names().size());
}

TEST(Presets, NormIsPalmsToChoose) {
  EXPECT_EQ(find_preset("palm-8b").spec.stack.blocks[0].norm.kind, NormKind::kLayer);
  EXPECT_EQ(find_preset("palm-8b", "rms").spec.stack.blocks[0].norm.kind, NormKind::kRms);
  EXPECT_THROW(find_preset("gpt2", "rms"), Error);
  EXPECT_THROW(find_preset("palm-8b", "batch"), Error);
}

TEST(Presets, UnknownNameListsTheKnown) {
  try {
    find_preset("gpt5");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("llama-3-8b"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace mainstem::testing
