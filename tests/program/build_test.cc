// Which sites a block has, their second names, shapes and weights, for every wiring.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "mainstem/error.h"
#include "mainstem/program.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

using ::testing::ElementsAreArray;

BlockSpec plain_block() {
  BlockSpec block = small_decoder().stack.blocks[0];
  block.attention.rotary.reset();
  return block;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::vector<std::string> site_names(const Program& program, const std::string& prefix) {
  std::vector<std::string> names;
  for (const NamedValue& named : program.sites) {
    const std::string full = to_string(named.site);
    if (full.starts_with(prefix)) names.push_back(full.substr(prefix.size()));
  }
  return names;
}

std::vector<std::string> block_sites(const BlockSpec& block) {
  return site_names(build_block_program(block), "blocks.0.");
}

const std::string kSelf = "q k v k_cache v_cache scores pattern attn_mix attn_proj attn_out ";
const std::string kMlpSites = "mlp_gate mlp_value mlp_act mlp_hidden mlp_proj mlp_out ";

struct Wiring {
  NormPlacement placement;
  ResidualForm residual;
  std::string sites;
};

TEST(BlockSites, EveryWiringHasTheSitesOfTheContract) {
  const std::vector<Wiring> wirings{
      {NormPlacement::kPre, ResidualForm::kSequential,
       "resid_pre attn_norm " + kSelf + "resid_mid mlp_norm " + kMlpSites + "resid_post"},
      {NormPlacement::kPost, ResidualForm::kSequential,
       "resid_pre " + kSelf + "attn_sum resid_mid " + kMlpSites + "mlp_sum resid_post"},
      {NormPlacement::kSandwich, ResidualForm::kSequential,
       "resid_pre attn_norm " + kSelf + "resid_mid mlp_norm " + kMlpSites + "resid_post"},
      {NormPlacement::kOutputOnly, ResidualForm::kSequential,
       "resid_pre " + kSelf + "resid_mid " + kMlpSites + "resid_post"},
      {NormPlacement::kPre, ResidualForm::kParallel,
       "resid_pre attn_norm " + kSelf + "mlp_norm " + kMlpSites + "resid_post"},
      {NormPlacement::kSandwich, ResidualForm::kParallel,
       "resid_pre attn_norm " + kSelf + "mlp_norm " + kMlpSites + "resid_post"},
      {NormPlacement::kOutputOnly, ResidualForm::kParallel,
       "resid_pre " + kSelf + kMlpSites + "resid_post"},
      {NormPlacement::kPre, ResidualForm::kParallelSharedNorm,
       "resid_pre attn_norm " + kSelf + kMlpSites + "resid_post"},
      {NormPlacement::kSandwich, ResidualForm::kParallelSharedNorm,
       "resid_pre attn_norm " + kSelf + kMlpSites + "resid_post"}};
  for (const Wiring& wiring : wirings) {
    BlockSpec block = plain_block();
    block.placement = wiring.placement;
    block.residual = wiring.residual;
    EXPECT_THAT(block_sites(block), ElementsAreArray(words(wiring.sites)))
        << name(wiring.placement) << ", " << name(wiring.residual);
  }
}

TEST(BlockSites, OptionalStepsComeInTheirPlaces) {
  BlockSpec block = plain_block();
  block.mlp.gated = false;
  block.attention.output_projection = false;
  block.attention.heads = 2;
  block.attention.head_width = 11;
  EXPECT_THAT(block_sites(block),
              ElementsAreArray(words("resid_pre attn_norm q k v k_cache v_cache scores pattern "
                                     "attn_mix attn_out resid_mid mlp_norm mlp_pre mlp_act "
                                     "mlp_hidden mlp_proj mlp_out resid_post")));
  block = small_decoder().stack.blocks[0];
  block.attention.qk_norm.emplace();
  std::vector<std::string> got = block_sites(block);
  got.resize(11);
  EXPECT_THAT(got, ElementsAreArray(words("resid_pre attn_norm q k v q_norm k_norm q_rot k_rot "
                                          "k_cache v_cache")));
  block.attention.qk_norm->after_rotary = true;
  got = block_sites(block);
  got.resize(11);
  EXPECT_THAT(got, ElementsAreArray(words("resid_pre attn_norm q k v q_rot k_rot q_norm k_norm "
                                          "k_cache v_cache")));
}

ModelSpec encoder_decoder(NormPlacement placement) {
  ModelSpec spec = small_decoder();
  spec.encoder = spec.stack;
  for (BlockSpec& block : spec.encoder->blocks) {
    block.attention.mask = MaskKind::kFull;
    block.placement = placement;
  }
  for (BlockSpec& block : spec.stack.blocks) {
    block.placement = placement;
    block.attention.rotary.reset();
    block.cross_attention = block.attention;
    block.cross_attention->mask = MaskKind::kFull;
  }
  return spec;
}

TEST(BlockSites, CrossAttentionStandsBetweenSelfAttentionAndMlp) {
  const std::string cross =
      "cross_q cross_k cross_v cross_scores cross_pattern cross_attn_mix cross_attn_proj "
      "cross_attn_out ";
  EXPECT_THAT(
      site_names(build_program(encoder_decoder(NormPlacement::kPost)), "decoder.blocks.1."),
      ElementsAreArray(words("resid_pre " + kSelf + "attn_sum cross_resid_pre " + cross +
                             "cross_attn_sum resid_mid " + kMlpSites + "mlp_sum resid_post")));
  EXPECT_THAT(
      site_names(build_program(encoder_decoder(NormPlacement::kPre)), "decoder.blocks.1."),
      ElementsAreArray(words("resid_pre attn_norm " + kSelf + "cross_resid_pre cross_attn_norm " +
                             cross + "resid_mid mlp_norm " + kMlpSites + "resid_post")));
}

std::vector<std::string> outer_sites(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const std::string& name : site_names(build_program(spec), "")) {
    if (name.find("blocks.") == std::string::npos) names.push_back(name);
  }
  return names;
}

TEST(ModelSites, OnlyEncoderDecoderModelsPrefixThem) {
  EXPECT_THAT(
      outer_sites(encoder_decoder(NormPlacement::kPre)),
      ElementsAreArray(words("encoder.tokens encoder.token_embed encoder.embed encoder.final_norm "
                             "decoder.tokens decoder.token_embed decoder.embed decoder.final_norm "
                             "decoder.head logits")));
  ModelSpec spec = small_decoder();
  EXPECT_THAT(outer_sites(spec),
              ElementsAreArray(words("tokens token_embed embed final_norm head logits")));
  spec.stack.positions = PositionKind::kLearned;
  spec.stack.position_rows = 9;
  spec.stack.token_types = 2;
  spec.stack.embed_norm.emplace();
  spec.stack.final_norm.reset();
  spec.head.kind = HeadKind::kMaskedLanguage;
  EXPECT_THAT(outer_sites(spec),
              ElementsAreArray(words("tokens token_embed pos_embed type_embed embed_sum embed "
                                     "head_proj head_act head_norm head logits")));
  spec.head.kind = HeadKind::kNone;
  EXPECT_THAT(outer_sites(spec), ElementsAreArray(words("tokens token_embed pos_embed type_embed "
                                                        "embed_sum embed")));
  spec.head.kind = HeadKind::kLinear;
  spec.head.projection_width = 5;
  EXPECT_THAT(outer_sites(spec),
              ElementsAreArray(words("tokens token_embed pos_embed type_embed embed_sum embed "
                                     "head_proj head logits")));
}

ValueId value_of(const Program& program, const std::string& site) {
  const auto id = parse_site(site);
  EXPECT_TRUE(id.has_value()) << site;
  const auto value = program.find_value(*id);
  EXPECT_TRUE(value.has_value()) << site;
  return *value;
}

TEST(SecondNames, AreTheSameValueExactlyWhereNothingLiesBetween) {
  ModelSpec spec = small_decoder();
  const auto same = [&](const std::string& a, const std::string& b) {
    const Program program = build_program(spec);
    return value_of(program, a) == value_of(program, b);
  };
  EXPECT_TRUE(same("blocks.0.resid_pre", "embed"));
  EXPECT_TRUE(same("embed", "token_embed"));
  EXPECT_TRUE(same("blocks.1.resid_pre", "blocks.0.resid_post"));
  EXPECT_FALSE(same("blocks.0.resid_pre", "blocks.0.resid_post"));
  EXPECT_TRUE(same("blocks.0.attn_out", "blocks.0.attn_proj"));
  EXPECT_TRUE(same("blocks.0.mlp_out", "blocks.0.mlp_proj"));
  EXPECT_FALSE(same("blocks.0.mlp_hidden", "blocks.0.mlp_act"));
  EXPECT_TRUE(same("logits", "head"));
  spec.head.logit_scale = 2;
  spec.stack.embed_scale = 3;
  for (BlockSpec& block : spec.stack.blocks) {
    block.residual_multiplier = 0.5;
    block.mlp.gated = false;
  }
  EXPECT_FALSE(same("embed", "token_embed"));
  EXPECT_FALSE(same("blocks.0.attn_out", "blocks.0.attn_proj"));
  EXPECT_FALSE(same("blocks.0.mlp_out", "blocks.0.mlp_proj"));
  EXPECT_TRUE(same("blocks.0.mlp_hidden", "blocks.0.mlp_act"));
  EXPECT_FALSE(same("logits", "head"));
  for (BlockSpec& block : spec.stack.blocks) {
    block.residual_multiplier = 1;
    block.placement = NormPlacement::kSandwich;
  }
  EXPECT_FALSE(same("blocks.0.attn_out", "blocks.0.attn_proj"));
  for (BlockSpec& block : spec.stack.blocks) {
    block.placement = NormPlacement::kPre;
    block.attention.output_projection = false;
    block.attention.rotary.reset();
    block.attention.heads = 2;
    block.attention.head_width = 11;
  }
  EXPECT_TRUE(same("blocks.0.attn_out", "blocks.0.attn_mix"));
}

std::string letters(const Value& value) {
  std::string text;
  for (const Dim& dim : value.dims) text += dim.letter;
  return text;
}

/// Letters of every site as the contract's table has them.
std::string contract_letters(const std::string& site) {
  static const std::map<std::string, std::string> special{{"tokens", "BT"},
                                                          {"q", "BTHE"},
                                                          {"k", "BTKE"},
                                                          {"v", "BTKE"},
                                                          {"q_norm", "BTHE"},
                                                          {"k_norm", "BTKE"},
                                                          {"q_rot", "BTHE"},
                                                          {"k_rot", "BTKE"},
                                                          {"cross_q", "BTHE"},
                                                          {"cross_k", "BTKE"},
                                                          {"cross_v", "BTKE"},
                                                          {"scores", "BHTS"},
                                                          {"pattern", "BHTS"},
                                                          {"cross_scores", "BHTS"},
                                                          {"cross_pattern", "BHTS"},
                                                          {"attn_mix", "BTHE"},
                                                          {"cross_attn_mix", "BTHE"},
                                                          {"k_cache", "BSKE"},
                                                          {"v_cache", "BSKE"},
                                                          {"mlp_gate", "BTF"},
                                                          {"mlp_value", "BTF"},
                                                          {"mlp_pre", "BTF"},
                                                          {"mlp_act", "BTF"},
                                                          {"mlp_hidden", "BTF"},
                                                          {"head", "BTV"},
                                                          {"logits", "BTV"}};
  const auto found = special.find(site);
  return found == special.end() ? "BTD" : found->second;
}

TEST(Shapes, EverySiteHasTheLettersOfTheContractAndSizesThatFit) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    const Program program = build_program(random_spec(dice, static_cast<Kind>(seed % 3)));
    for (const NamedValue& named : program.sites) {
      const Value& value = program.value(named.value);
      const std::string site(name(named.site.site));
      const std::string full = to_string(named.site);
      if (site == "attn_out" || site == "cross_attn_out") {
        // Without an output projection it may be a second name of attn_mix, stored once.
        const SiteId mix{site == "attn_out" ? Site::kAttnMix : Site::kCrossAttnMix,
                         named.site.layer, named.site.stack};
        if (program.find_value(mix) == named.value) continue;
      }
      EXPECT_EQ(letters(value), contract_letters(site)) << full << ", seed " << seed;
      int64_t width = 1;
      for (const Dim& dim : value.dims) {
        const bool runs = dim.letter == 'B' || dim.letter == 'T' || dim.letter == 'S';
        EXPECT_EQ(dim.size == -1, runs) << full;
        if (!runs) width *= dim.size;
      }
      if (!is_square(full) && value.dims[1].letter == 'T') {
        EXPECT_EQ(value.width, width) << full;
      }
      EXPECT_FALSE(program.formula(named.value).empty()) << full;
    }
  }
}

TEST(Weights, EveryNameOnceAndEveryWeightUsed) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(seed + 40);
    const Program program = build_program(random_spec(dice, static_cast<Kind>(seed % 3)));
    std::set<std::string> names;
    std::set<WeightId> used;
    for (const WeightInfo& weight : program.weights) {
      EXPECT_TRUE(names.insert(weight.name).second) << weight.name;
      EXPECT_EQ(program.find_weight(weight.name),
                static_cast<WeightId>(&weight - program.weights.data()));
    }
    for (const Step& step : program.steps) {
      for (WeightId weight : step.weights) {
        if (weight != kNoId) used.insert(weight);
      }
    }
    EXPECT_EQ(used.size(), program.weights.size());
  }
}

/// Each value once, by an earlier step than those that read it.
TEST(Steps, ValuesAreMadeOnceAndBeforeTheyAreRead) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(seed + 80);
    const Program program = build_program(random_spec(dice, static_cast<Kind>(seed % 3)));
    std::set<ValueId> made;
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      EXPECT_NE(step.op, Op::kCustom);
      for (ValueId input : step.inputs) EXPECT_TRUE(made.contains(input));
      for (ValueId value :
           {step.output, step.scores, step.pattern, step.cached_keys, step.cached_values}) {
        if (value == kNoId) continue;
        EXPECT_TRUE(made.insert(value).second);
        EXPECT_EQ(program.value(value).producer, static_cast<StepId>(s));
      }
    }
    EXPECT_EQ(made.size(), program.values.size());
    EXPECT_TRUE(made.contains(program.output));
  }
}

TEST(BlockAlone, ItsInputIsResidPreAndCrossAttentionIsRefused) {
  BlockSpec block = plain_block();
  const Program program = build_block_program(block);
  EXPECT_EQ(value_of(program, "blocks.0.resid_pre"), program.input);
  EXPECT_EQ(value_of(program, "blocks.0.resid_post"), program.output);
  block.cross_attention = block.attention;
  block.cross_attention->mask = MaskKind::kFull;
  EXPECT_THROW(build_block_program(block), Error);
}

}  // namespace
}  // namespace mainstem::testing
