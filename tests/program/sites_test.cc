#include "mainstem/sites.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace mainstem {
namespace {

// The contract's list, in firing order.
const std::vector<std::string> kOutside{"tokens",    "token_embed", "pos_embed",  "type_embed",
                                        "embed_sum", "embed",       "final_norm", "head_proj",
                                        "head_act",  "head_norm",   "head",       "logits"};
const std::vector<std::string> kInBlock{"resid_pre",
                                        "attn_norm",
                                        "q",
                                        "k",
                                        "v",
                                        "q_norm",
                                        "k_norm",
                                        "q_rot",
                                        "k_rot",
                                        "k_cache",
                                        "v_cache",
                                        "scores",
                                        "pattern",
                                        "attn_mix",
                                        "attn_proj",
                                        "attn_out",
                                        "attn_sum",
                                        "cross_resid_pre",
                                        "cross_attn_norm",
                                        "cross_q",
                                        "cross_k",
                                        "cross_v",
                                        "cross_scores",
                                        "cross_pattern",
                                        "cross_attn_mix",
                                        "cross_attn_proj",
                                        "cross_attn_out",
                                        "cross_attn_sum",
                                        "resid_mid",
                                        "mlp_norm",
                                        "mlp_gate",
                                        "mlp_value",
                                        "mlp_pre",
                                        "mlp_act",
                                        "mlp_hidden",
                                        "mlp_proj",
                                        "mlp_out",
                                        "mlp_sum",
                                        "resid_post"};

std::vector<Site> every_site() {
  std::vector<Site> sites;
  for (int i = 0; i <= static_cast<int>(Site::kLogits); ++i) sites.push_back(static_cast<Site>(i));
  return sites;
}

TEST(Sites, NamesAreThoseOfTheContractInFiringOrder) {
  std::vector<std::string> want(kOutside.begin(), kOutside.begin() + 6);
  want.insert(want.end(), kInBlock.begin(), kInBlock.end());
  want.insert(want.end(), kOutside.begin() + 6, kOutside.end());
  std::vector<std::string> got;
  for (Site site : every_site()) got.emplace_back(name(site));
  EXPECT_EQ(got, want);
  const std::set<std::string> in_block(kInBlock.begin(), kInBlock.end());
  for (Site site : every_site()) {
    EXPECT_EQ(is_block_site(site), in_block.contains(std::string(name(site)))) << name(site);
  }
}

TEST(Sites, EveryNameIsReadBackAsItself) {
  for (Site site : every_site()) {
    for (Stack stack : {Stack::kOnly, Stack::kEncoder, Stack::kDecoder}) {
      if (site == Site::kLogits && stack != Stack::kOnly) continue;
      for (int layer : {0, 7, 125}) {
        const SiteId id{site, is_block_site(site) ? layer : -1, stack};
        const std::string text = to_string(id);
        const auto back = parse_site(text);
        ASSERT_TRUE(back.has_value()) << text;
        EXPECT_EQ(*back, id) << text;
      }
    }
  }
  EXPECT_EQ(to_string({Site::kQRot, 3, Stack::kOnly}), "blocks.3.q_rot");
  EXPECT_EQ(to_string({Site::kCrossQ, 0, Stack::kDecoder}), "decoder.blocks.0.cross_q");
  EXPECT_EQ(to_string({Site::kFinalNorm, -1, Stack::kEncoder}), "encoder.final_norm");
}

TEST(Sites, AlmostNamesAreNone) {
  for (const char* text : {"",
                           "q",
                           "blocks.q",
                           "blocks.0",
                           "blocks.0.",
                           "blocks..q",
                           "blocks.-1.q",
                           "blocks.+1.q",
                           "blocks.-0.q",
                           "blocks.01.q",
                           "blocks. 1.q",
                           "blocks.1.q ",
                           " blocks.1.q",
                           "blocks.1.Q",
                           "blocks.99999999999999999999.q",
                           "blocks.0x1.q",
                           "blocks.0.logits",
                           "blocks.0.embed",
                           "decoder.logits",
                           "encoder.logits",
                           "encoder",
                           "encoder.",
                           "encoder.decoder.embed",
                           "decoder.decoder.embed",
                           "logit",
                           "logits.",
                           "blocks.0.q.weight",
                           "blocks.*.q",
                           "encoder.blocks.0",
                           "grad.logits"}) {
    EXPECT_FALSE(parse_site(text).has_value()) << text;
  }
  EXPECT_FALSE(parse_site(std::string_view("embed\0", 6)).has_value());
}

/// The meaning of a pattern, by trying everything.
bool slow_match(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    for (size_t skip = 0; skip <= text.size(); ++skip) {
      if (slow_match(pattern.substr(1), text.substr(skip))) return true;
    }
    return false;
  }
  if (text.empty() || (pattern[0] != '?' && pattern[0] != text[0])) return false;
  return slow_match(pattern.substr(1), text.substr(1));
}

TEST(Glob, MatchesWholeNames) {
  EXPECT_TRUE(glob_match("blocks.*.q_rot", "blocks.11.q_rot"));
  EXPECT_FALSE(glob_match("blocks.*.q", "blocks.11.q_rot"));
  EXPECT_FALSE(glob_match("locks.*", "blocks.1.q"));
  EXPECT_TRUE(glob_match("blocks.?.q", "blocks.1.q"));
  EXPECT_FALSE(glob_match("blocks.?.q", "blocks.11.q"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_TRUE(glob_match("blocks.[02].[qk]*", "blocks.2.k_rot"));
  EXPECT_FALSE(glob_match("blocks.[02].*", "blocks.1.q"));
  EXPECT_TRUE(glob_match("*.[!qk]", "blocks.2.v"));
  EXPECT_FALSE(glob_match("*.[!qk]", "blocks.2.q"));
  EXPECT_TRUE(glob_match("blocks.[1-3].q", "blocks.2.q"));
  EXPECT_FALSE(glob_match("blocks.[1-3].q", "blocks.4.q"));
  EXPECT_TRUE(glob_match("[a", "[a"));  // closed by nothing
  EXPECT_FALSE(glob_match("[a", "a"));
  EXPECT_FALSE(glob_match("{a,b}", "a"));  // no other letters mean anything
}

TEST(Glob, AgreesWithTryingEverything) {
  // All patterns and texts of up to five letters over a small alphabet.
  const std::string letters = "ab*?";
  std::vector<std::string> patterns{""};
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].size() == 5) break;
    for (char letter : letters) patterns.push_back(patterns[i] + letter);
  }
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == 5) break;
    for (char letter : std::string("ab")) texts.push_back(texts[i] + letter);
  }
  for (const std::string& pattern : patterns) {
    for (const std::string& text : texts) {
      ASSERT_EQ(glob_match(pattern, text), slow_match(pattern, text)) << pattern << " on " << text;
    }
  }
}

TEST(Glob, ManyStarsStayFast) {
  const std::string text(20000, 'a');
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "*a";
  EXPECT_FALSE(glob_match(pattern + "b", text));
  EXPECT_TRUE(glob_match(pattern, text));
}

}  // namespace
}  // namespace mainstem
