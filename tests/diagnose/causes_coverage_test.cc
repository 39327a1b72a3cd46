// The table of causes against the contract's list, the families and the documentation.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "diagnose/causes.h"
#include "diagnose/causes/place.h"
#include "mainstem/check.h"
#include "mainstem/model.h"
#include "support/golden_families.h"

namespace mainstem {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string>& contract() {
  static const std::vector<std::string> ids = {"embed.scale",
                                               "embed.position_offset",
                                               "embed.position_kind",
                                               "embed.token_type",
                                               "norm.eps",
                                               "norm.eps_outside_root",
                                               "norm.unbiased_variance",
                                               "norm.kind",
                                               "norm.weight_offset",
                                               "norm.weight_swapped",
                                               "norm.bias_missing",
                                               "norm.missing",
                                               "norm.placement",
                                               "norm.cast_order",
                                               "weight.transposed",
                                               "weight.rows_permuted",
                                               "weight.quant_layout",
                                               "bias.missing",
                                               "rope.pairing",
                                               "rope.base",
                                               "rope.scaling",
                                               "rope.partial",
                                               "rope.position",
                                               "rope.missing",
                                               "rope.twice",
                                               "qk_norm.order",
                                               "qk_norm.axis",
                                               "qk_norm.missing",
                                               "attn.qkv_split",
                                               "attn.kv_swapped",
                                               "attn.scale",
                                               "attn.softcap",
                                               "attn.position_bias",
                                               "attn.causal_mask",
                                               "attn.padding_mask",
                                               "attn.window",
                                               "attn.gqa_mapping",
                                               "attn.head_merge",
                                               "mlp.activation",
                                               "mlp.gate_value_swapped",
                                               "residual.missing",
                                               "residual.doubled",
                                               "residual.source",
                                               "residual.scale",
                                               "block.parallel",
                                               "head.final_norm",
                                               "head.tied",
                                               "head.softcap",
                                               "head.scale"};
  return ids;
}

/// Sites without their block, by cause, over every form of every family.
std::map<std::string, std::set<Site>> sites_by_cause() {
  std::map<std::string, std::set<Site>> sites;
  const auto add = [&](const Program& program, const WeightSources& weights) {
    for (bool encoder : {false, true}) {
      if (encoder && !program.spec.encoder) continue;
      const auto& blocks = (encoder ? *program.spec.encoder : program.spec.stack).blocks;
      for (int layer = -1; layer < static_cast<int>(blocks.size()); ++layer) {
        for (const Form& form : forms(program, weights, layer, encoder)) {
          for (const SiteId& site : form.shows) sites[form.cause].insert(site.site);
        }
      }
    }
  };
  for (const std::string& family : testing::golden_families()) {
    const Model model = Model::load(testing::golden_families_folder() / family,
                                    {.allow_unknown_keys = {}, .skip_tokenizer = true});
    add(model.program(), model.weights());
  }
  return sites;
}

std::string joined(const std::set<Site>& sites) {
  std::string text;
  for (Site site : sites) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name(site));
  return text;
}

/// The table of docs/causes.md, as the program has it.
std::string table() {
  std::string text = "| id | what the wrong code does | where it shows | which models |\n";
  text += "|---|---|---|---|\n";
  auto sites = sites_by_cause();
  for (const causes::CauseRow& row : causes::cause_rows()) {
    // No family's golden file is quantised.
    const std::string where = row.id == "weight.quant_layout" ? "`token_embed`, what products make"
                                                              : joined(sites[std::string(row.id)]);
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.id, row.what, where, row.where);
  }
  return text;
}

TEST(Causes, AreThoseOfTheContractInItsOrder) {
  std::vector<std::string> ids;
  for (const causes::CauseRow& row : causes::cause_rows()) ids.emplace_back(row.id);
  EXPECT_EQ(ids, contract());
}

TEST(Causes, EachHasAFormInSomeFamily) {
  const auto sites = sites_by_cause();
  for (const std::string& id : contract()) {
    if (id == "weight.quant_layout") continue;  // causes_quant_test.cc
    EXPECT_TRUE(sites.contains(id)) << id;
  }
}

TEST(Causes, AreDocumented) {
  std::ifstream file(fs::path(MAINSTEM_TEST_DATA).parent_path() / "docs" / "causes.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string expected = table();
  EXPECT_NE(text.str().find(expected), std::string::npos)
      << "docs/causes.md does not hold this table:\n"
      << expected;
  for (const MistakeInfo& info : known_mistakes()) {
    EXPECT_NE(text.str().find("`" + info.id + "`"), std::string::npos) << info.id;
  }
}

}  // namespace
}  // namespace mainstem
