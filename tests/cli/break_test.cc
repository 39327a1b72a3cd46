// --break with every known mistake: the command's trace is that of the program that the library
// makes, and no longer the right one.

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <set>

#include "cli/run_command.h"
#include "diagnose/local_errors.h"
#include "mainstem/check.h"
#include "mainstem/error.h"
#include "mainstem/model.h"
#include "mainstem/safetensors.h"

namespace mainstem::cli_test {
namespace {

std::filesystem::path folder(const std::string& family) {
  return std::filesystem::path(MAINSTEM_TEST_DATA) / "golden" / "families" / family;
}

const std::vector<int64_t> kTokens{3, 17, 5, 29, 8, 11, 2, 9};
constexpr const char* kTokensText = "3,17,5,29,8,11,2,9";

SiteValues values_of(Program program, const WeightSources& weights) {
  const auto bound = std::make_shared<BoundProgram>(std::move(program), weights);
  const SequenceInput input{.tokens = kTokens};
  return site_values(bound, {&input, 1}, 1, [] {});
}

/// A family that the mistake can be made in, and what it makes of it.
struct Case {
  std::string family;
  SiteValues right, wrong;
};
std::optional<Case> case_of(const std::string& id) {
  for (const char* family : {"mistral", "llama", "gpt2", "bert", "qwen3", "falcon_rw"}) {
    const Model model =
        Model::load(folder(family), {.allow_unknown_keys = {}, .skip_tokenizer = true});
    try {
      BrokenModel broken = make_mistake(model.program(), model.weights(), {id, -1});
      return Case{family, values_of(model.program(), model.weights()),
                  values_of(std::move(broken.program), broken.weights)};
    } catch (const Error&) {
      continue;
    }
  }
  return std::nullopt;
}

TEST(Break, TracesWhatTheMistakeMakes) {
  const Scratch scratch;
  std::set<std::string> without_case, without_effect;
  for (const MistakeInfo& mistake : known_mistakes()) {
    SCOPED_TRACE(mistake.id);
    const std::optional<Case> chosen = case_of(mistake.id);
    if (!chosen) {
      without_case.insert(mistake.id);
      continue;
    }
    const std::string file = scratch / (mistake.id + ".safetensors");
    const Outcome outcome = run({"trace", folder(chosen->family), "--tokens", kTokensText,
                                 "--compute", "f64", "--break", mistake.id, "--out", file});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const SafetensorsFile traced = SafetensorsFile::open(file);
    size_t compared = 0;
    bool differs = false;
    for (const auto& [site, values] : chosen->wrong) {
      const StoredTensor* tensor = traced.find(site);
      if (tensor == nullptr || site == "tokens") continue;
      ++compared;
      EXPECT_EQ(to_f64(tensor->view()), values) << site;
      differs |= values != chosen->right.at(site);
    }
    EXPECT_GT(compared, 20U);
    if (!differs) without_effect.insert(mistake.id);
  }
  EXPECT_EQ(without_case, std::set<std::string>{"weight.quant_layout"});  // nothing is quantised
  EXPECT_EQ(without_effect, std::set<std::string>{"attn.padding_mask"});  // nothing is padded
}

TEST(Break, InAModelThatHasNoSuchPart) {
  const auto broken = [](const char* family, const char* id) {
    return run({"trace", folder(family), "--tokens", kTokensText, "--break", id});
  };
  EXPECT_TRUE(fails(broken("gpt2", "rope.pairing"), 2, "rope.pairing"));
  EXPECT_TRUE(fails(broken("llama", "weight.quant_layout"), 2, "weight.quant_layout"));
  EXPECT_TRUE(fails(broken("llama", "embed.scale@1"), 2, "embed.scale"));
  EXPECT_TRUE(fails(broken("llama", "norm.eps@2"), 2, "0 to 1"));
}

TEST(Break, ListsEveryMistake) {
  const nlohmann::json listed = run({"check", "--break", "list", "--json"}).json().at("mistakes");
  ASSERT_EQ(listed.size(), known_mistakes().size());
  EXPECT_EQ(listed.size(), 52U);
  for (size_t i = 0; i < listed.size(); ++i) {
    EXPECT_EQ(listed[i].at("id"), known_mistakes()[i].id);
    EXPECT_EQ(listed[i].at("what"), known_mistakes()[i].what);
  }
}

}  // namespace
}  // namespace mainstem::cli_test
