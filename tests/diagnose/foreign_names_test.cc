#include "diagnose/foreign_names.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/random_model.h"

namespace mainstem {
namespace {

using testing::Dice;
using testing::Kind;
using testing::random_spec;
using testing::small_decoder;

using Change = std::function<void(BlockSpec& block)>;

/// Two blocks, plain and pre-norm with LayerNorm and biases, then changed.
ModelSpec spec_of(const Change& change) {
  ModelSpec spec = small_decoder();
  for (BlockSpec& block : spec.stack.blocks) change(block);
  return spec;
}

void make_plain(BlockSpec& block) {
  block.norm = {.kind = NormKind::kLayer, .eps = 1e-5, .bias = true};
  block.mlp.gated = false;
  block.mlp.activation = Activation::kGeluTanh;
  block.mlp.up_bias = block.mlp.down_bias = true;
  AttentionSpec& attention = block.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.output_bias = true;
  attention.rotary.reset();
}

/// The names of all distinct values, each under its earliest site, those of block 1 and outside
/// the blocks as `what -> name`.
std::map<std::string, std::string> names_of(const ModelSpec& spec, const char* family,
                                            Naming naming) {
  const Program program = build_program(spec);
  std::map<std::string, std::string> names;
  std::set<ValueId> seen;
  for (const NamedValue& named : program.sites) {
    if (!seen.insert(named.value).second || named.site.layer == 0) continue;
    std::string own = to_string(named.site);
    if (const size_t at = own.find("blocks.1."); at != std::string::npos) own.erase(at, 9);
    names[own] = foreign_name(naming, program, family, named.value, named.site);
  }
  return names;
}

using Rows = std::map<std::string, std::string>;

void expect_rows(const Rows& got, const Rows& want) {
  for (const auto& [site, name] : want) {
    const auto found = got.find(site);
    EXPECT_EQ(found == got.end() ? "no such value" : found->second, name) << site;
  }
}

TEST(ForeignNames, Gpt2) {
  ModelSpec spec = spec_of(make_plain);
  spec.stack.positions = PositionKind::kLearned;
  spec.stack.position_rows = 20;
  EXPECT_EQ(names_of(spec, "gpt2", Naming::kHuggingFace),
            (Rows{{"tokens", "tokens"},
                  {"token_embed", "transformer.wte"},
                  {"pos_embed", "transformer.wpe"},
                  {"embed", "transformer.drop"},
                  {"attn_norm", "transformer.h.1.ln_1"},
                  {"q", "blocks.1.q"},
                  {"k", "blocks.1.k"},
                  {"v", "blocks.1.v"},
                  {"k_cache", "blocks.1.k_cache"},
                  {"v_cache", "blocks.1.v_cache"},
                  {"scores", "blocks.1.scores"},
                  {"pattern", "blocks.1.pattern"},
                  {"attn_mix", "transformer.h.1.attn.c_proj.input"},
                  {"attn_proj", "transformer.h.1.attn.c_proj"},
                  {"resid_mid", "transformer.h.1.ln_2.input"},
                  {"mlp_norm", "transformer.h.1.ln_2"},
                  {"mlp_pre", "transformer.h.1.mlp.c_fc"},
                  {"mlp_act", "transformer.h.1.mlp.act"},
                  {"mlp_proj", "transformer.h.1.mlp.c_proj"},
                  {"resid_post", "transformer.h.1"},
                  {"final_norm", "transformer.ln_f"},
                  {"head", "lm_head"}}));
  expect_rows(names_of(spec, "gpt2", Naming::kTransformerLens),
              {{"pos_embed", "hook_pos_embed"},
               {"embed", "blocks.0.hook_resid_pre"},
               {"mlp_pre", "blocks.1.mlp.hook_pre"},
               {"mlp_act", "blocks.1.mlp.hook_post"},
               {"attn_proj", "blocks.1.hook_attn_out"}});
  expect_rows(names_of(spec, "gpt2", Naming::kGgml), {{"pos_embed", "pos_embd"},
                                                      {"embed", "inpL"},
                                                      {"q", "Qcur-1"},
                                                      {"v", "Vcur-1"},
                                                      {"attn_proj", "blocks.1.attn_proj"},
                                                      {"mlp_pre", "ffn_up_b-1"},
                                                      {"mlp_act", "ffn_gelu-1"},
                                                      {"mlp_proj", "ffn_out-1"},
                                                      {"head", "result_output"}});
}

TEST(ForeignNames, BertNamesTheSumsBeforeItsNorms) {
  ModelSpec spec = spec_of([](BlockSpec& block) {
    make_plain(block);
    block.placement = NormPlacement::kPost;
    block.attention.mask = MaskKind::kFull;
  });
  spec.stack.positions = PositionKind::kLearned;
  spec.stack.position_rows = 20;
  spec.stack.token_types = 2;
  spec.stack.embed_norm = spec.stack.blocks[0].norm;
  spec.stack.final_norm.reset();
  spec.head.kind = HeadKind::kMaskedLanguage;
  spec.head.bias = true;
  const Rows modules = names_of(spec, "bert", Naming::kHuggingFace);
  expect_rows(modules, {{"type_embed", "bert.embeddings.token_type_embeddings"},
                        {"embed_sum", "bert.embeddings.LayerNorm.input"},
                        {"embed", "bert.embeddings.LayerNorm"},
                        {"q", "bert.encoder.layer.1.attention.self.query"},
                        {"attn_mix", "bert.encoder.layer.1.attention.output.dense.input"},
                        {"attn_sum", "bert.encoder.layer.1.attention.output.LayerNorm.input"},
                        {"resid_mid", "bert.encoder.layer.1.attention.output.LayerNorm"},
                        {"mlp_act", "bert.encoder.layer.1.intermediate.intermediate_act_fn"},
                        {"mlp_sum", "bert.encoder.layer.1.output.LayerNorm.input"},
                        {"resid_post", "bert.encoder.layer.1.output.LayerNorm"},
                        {"head_act", "cls.predictions.transform.transform_act_fn"},
                        {"head", "cls.predictions.decoder"}});
  expect_rows(names_of(spec, "bert", Naming::kTransformerLens),
              {{"attn_sum", "blocks.1.hook_resid_mid"},
               {"resid_mid", "blocks.1.resid_mid"},
               {"mlp_sum", "blocks.1.hook_resid_post"},
               {"resid_post", "blocks.1.hook_normalized_resid_post"}});
  expect_rows(names_of(spec, "bert", Naming::kGgml), {{"embed_sum", "inp_embd"},
                                                      {"embed", "inp_norm-0"},
                                                      {"q", "Qcur-1#ADD"},
                                                      {"attn_mix", "kqv_out-1#CONT"},
                                                      {"attn_proj", "kqv_out-1#ADD"},
                                                      {"attn_sum", "blocks.1.attn_sum"},
                                                      {"resid_mid", "ffn_inp-1"},
                                                      {"resid_post", "blocks.1.resid_post"}});
  spec.head.kind = HeadKind::kNone;
  expect_rows(
      names_of(spec, "bert", Naming::kHuggingFace),
      {{"embed", "embeddings.LayerNorm"}, {"resid_post", "encoder.layer.1.output.LayerNorm"}});
}

TEST(ForeignNames, GemmasScaledEmbeddingAndNorms) {
  const auto sandwich = [](BlockSpec& block) {
    block.placement = NormPlacement::kSandwich;
    block.mlp.activation = Activation::kGeluTanh;
    block.attention.qk_norm.emplace();
  };
  ModelSpec spec = spec_of(sandwich);
  spec.stack.embed_scale = 5;
  spec.head.logit_cap = 30;
  expect_rows(names_of(spec, "gemma3", Naming::kHuggingFace),
              {{"token_embed", "token_embed"},
               {"embed", "model.embed_tokens"},
               {"q_norm", "model.layers.1.self_attn.q_norm"},
               {"attn_proj", "model.layers.1.self_attn.o_proj"},
               {"attn_out", "model.layers.1.post_attention_layernorm"},
               {"resid_mid", "model.layers.1.pre_feedforward_layernorm.input"},
               {"mlp_norm", "model.layers.1.pre_feedforward_layernorm"},
               {"mlp_proj", "model.layers.1.mlp.down_proj"},
               {"mlp_out", "model.layers.1.post_feedforward_layernorm"},
               {"head", "lm_head"},
               {"logits", "logits"}});
  EXPECT_EQ(names_of(spec, "gemma2", Naming::kHuggingFace),
            names_of(spec, "gemma3", Naming::kHuggingFace));
  const Rows nodes = {{"token_embed", "embd"},
                      {"embed", "inp_scaled"},
                      {"q", "Qcur-1#MUL_MAT"},
                      {"q_norm", "Qcur_normed-1"},
                      {"q_rot", "Qcur-1#ROPE"},
                      {"scores", "kq-1"},
                      {"attn_proj", "blocks.1.attn_proj"},
                      {"attn_out", "attn_post_norm-1"},
                      {"resid_mid", "sa_out-1"},
                      {"mlp_hidden", "ffn_geglu-1"},
                      {"mlp_proj", "ffn_out-1"},
                      {"mlp_out", "ffn_post_norm-1"},
                      {"head", "head"},
                      {"logits", "result_output"}};
  expect_rows(names_of(spec, "gemma3", Naming::kGgml), nodes);
  // Without a number the name would stand for every block's value.
  Rows second = nodes;
  second["scores"] = "kq_scaled_2-1";
  second["mlp_out"] = "blocks.1.mlp_out";
  expect_rows(names_of(spec, "gemma2", Naming::kGgml), second);
  expect_rows(names_of(spec, "gemma2", Naming::kTransformerLens),
              {{"token_embed", "token_embed"},
               {"embed", "hook_embed"},
               {"attn_out", "blocks.1.hook_attn_out"},
               {"mlp_out", "blocks.1.hook_mlp_out"}});
  ModelSpec first = small_decoder();
  first.stack.embed_scale = 5;
  expect_rows(names_of(first, "gemma", Naming::kGgml),
              {{"embed", "inp_scaled"}, {"scores", "kq-1"}, {"resid_mid", "sa_out-1"}});
  expect_rows(names_of(first, "gemma", Naming::kHuggingFace),
              {{"embed", "model.embed_tokens"},
               {"resid_mid", "model.layers.1.post_attention_layernorm.input"}});
}

TEST(ForeignNames, NormsOfOutputsAlone) {
  const ModelSpec spec = spec_of([](BlockSpec& block) {
    block.placement = NormPlacement::kOutputOnly;
    block.attention.qk_norm.emplace().scope = QkNormScope::kWhole;
  });
  expect_rows(names_of(spec, "olmo2", Naming::kHuggingFace),
              {{"q_norm", "model.layers.1.self_attn.q_norm"},
               {"attn_out", "model.layers.1.post_attention_layernorm"},
               {"resid_mid", "model.layers.1.mlp.gate_proj.input"},
               {"mlp_out", "model.layers.1.post_feedforward_layernorm"}});
  expect_rows(names_of(spec, "olmo2", Naming::kGgml), {{"q_norm", "Qcur_normed-1"},
                                                       {"attn_out", "attn_post_norm-1"},
                                                       {"resid_mid", "ffn_inp-1"},
                                                       {"mlp_out", "blocks.1.mlp_out"}});
}

TEST(ForeignNames, ParallelBlocks) {
  const auto parallel = [](ResidualForm form, bool rotary) {
    return spec_of([&](BlockSpec& block) {
      const auto kept = block.attention.rotary;
      make_plain(block);
      if (rotary) block.attention.rotary = kept;
      block.residual = form;
    });
  };
  const ModelSpec shared = parallel(ResidualForm::kParallelSharedNorm, true);
  const ModelSpec two = parallel(ResidualForm::kParallel, true);
  expect_rows(names_of(shared, "phi", Naming::kHuggingFace),
              {{"attn_mix", "model.layers.1.self_attn.dense.input"},
               {"mlp_pre", "model.layers.1.mlp.fc1"},
               {"mlp_act", "model.layers.1.mlp.activation_fn"},
               {"mlp_proj", "model.layers.1.mlp.fc2"},
               {"final_norm", "model.final_layernorm"}});
  expect_rows(names_of(shared, "phi", Naming::kGgml),
              {{"q", "Qcur-1#ADD"}, {"v", "Vcur-1#ADD"}, {"scores", "kq-1"}});
  expect_rows(names_of(two, "gpt_neox", Naming::kHuggingFace),
              {{"token_embed", "gpt_neox.embed_in"},
               {"q", "blocks.1.q"},
               {"attn_norm", "gpt_neox.layers.1.input_layernorm"},
               {"mlp_norm", "gpt_neox.layers.1.post_attention_layernorm"},
               {"attn_proj", "gpt_neox.layers.1.attention.dense"},
               {"mlp_pre", "gpt_neox.layers.1.mlp.dense_h_to_4h"},
               {"final_norm", "gpt_neox.final_layer_norm"}});
  expect_rows(names_of(two, "gpt_neox", Naming::kGgml),
              {{"q", "Qcur-1#VIEW"}, {"v", "Vcur-1"}, {"q_rot", "Qcur-1#ROPE"}});
  expect_rows(names_of(shared, "gptj", Naming::kHuggingFace),
              {{"q", "transformer.h.1.attn.q_proj"},
               {"mlp_pre", "transformer.h.1.mlp.fc_in"},
               {"attn_norm", "transformer.h.1.ln_1"}});
  expect_rows(names_of(shared, "gptj", Naming::kGgml),
              {{"q", "blocks.1.q"}, {"head", "head"}, {"resid_post", "blocks.1.resid_post"}});
  expect_rows(names_of(shared, "falcon", Naming::kHuggingFace),
              {{"attn_norm", "transformer.h.1.input_layernorm"},
               {"attn_proj", "transformer.h.1.self_attention.dense"}});
  expect_rows(names_of(two, "falcon", Naming::kHuggingFace),
              {{"attn_norm", "transformer.h.1.ln_attn"},
               {"mlp_norm", "transformer.h.1.ln_mlp"},
               {"mlp_proj", "transformer.h.1.mlp.dense_4h_to_h"}});
  expect_rows(names_of(two, "falcon", Naming::kGgml),
              {{"attn_norm", "attn_norm_2-1"}, {"mlp_norm", "attn_norm-1"}});
  expect_rows(names_of(shared, "falcon", Naming::kGgml), {{"attn_norm", "attn_norm-1"}});
}

TEST(ForeignNames, OptOfBothPlacements) {
  ModelSpec spec = spec_of(make_plain);
  spec.stack.positions = PositionKind::kLearned;
  spec.stack.position_rows = 20;
  expect_rows(names_of(spec, "opt", Naming::kHuggingFace),
              {{"pos_embed", "model.decoder.embed_positions"},
               {"attn_norm", "model.decoder.layers.1.self_attn_layer_norm"},
               {"q", "model.decoder.layers.1.self_attn.q_proj"},
               {"attn_mix", "model.decoder.layers.1.self_attn.out_proj.input"},
               {"resid_mid", "model.decoder.layers.1.final_layer_norm.input"},
               {"mlp_norm", "model.decoder.layers.1.final_layer_norm"},
               {"mlp_pre", "model.decoder.layers.1.fc1"},
               {"resid_post", "model.decoder.layers.1"},
               {"final_norm", "model.decoder.final_layer_norm"}});
  for (BlockSpec& block : spec.stack.blocks) block.placement = NormPlacement::kPost;
  spec.stack.final_norm.reset();
  expect_rows(names_of(spec, "opt", Naming::kHuggingFace),
              {{"attn_sum", "model.decoder.layers.1.self_attn_layer_norm.input"},
               {"resid_mid", "model.decoder.layers.1.self_attn_layer_norm"},
               {"mlp_sum", "model.decoder.layers.1.final_layer_norm.input"},
               {"resid_post", "model.decoder.layers.1.final_layer_norm"}});
}

TEST(ForeignNames, QueryAndKeyNorms) {
  const ModelSpec spec = spec_of([](BlockSpec& block) { block.attention.qk_norm.emplace(); });
  expect_rows(names_of(spec, "stablelm", Naming::kHuggingFace),
              {{"q_norm", "model.layers.1.self_attn.q_layernorm"},
               {"k_norm", "model.layers.1.self_attn.k_layernorm"}});
  expect_rows(names_of(spec, "stablelm", Naming::kGgml), {{"q", "Qcur-1#MUL_MAT"},
                                                          {"q_norm", "Qcur-1#MUL"},
                                                          {"q_rot", "Qcur-1#ROPE"},
                                                          {"k_norm", "Kcur-1#MUL"}});
  expect_rows(names_of(spec, "qwen3", Naming::kGgml),
              {{"q_norm", "Qcur_normed-1"}, {"attn_proj", "blocks.1.attn_proj"}});
  expect_rows(names_of(spec, "cohere", Naming::kGgml), {{"q_norm", "blocks.1.q_norm"}});
  // The architecture "llama" alone names the product with the output weights.
  expect_rows(names_of(spec, "llama", Naming::kGgml), {{"attn_proj", "attn_out-1"}});
}

TEST(ForeignNames, MarianHasTwoStacks) {
  ModelSpec spec = spec_of([](BlockSpec& block) {
    make_plain(block);
    block.placement = NormPlacement::kPost;
  });
  spec.stack.final_norm.reset();
  spec.head.bias = true;
  spec.encoder = spec.stack;
  for (BlockSpec& block : spec.encoder->blocks) block.attention.mask = MaskKind::kFull;
  for (BlockSpec& block : spec.stack.blocks) {
    block.cross_attention = block.attention;
    block.cross_attention->mask = MaskKind::kFull;
  }
  const Rows names = names_of(spec, "marian", Naming::kHuggingFace);
  expect_rows(names,
              {{"encoder.token_embed", "model.encoder.embed_tokens"},
               {"encoder.q", "model.encoder.layers.1.self_attn.q_proj"},
               {"encoder.resid_mid", "model.encoder.layers.1.self_attn_layer_norm"},
               {"encoder.resid_post", "model.encoder.layers.1.final_layer_norm"},
               {"decoder.cross_resid_pre", "model.decoder.layers.1.self_attn_layer_norm"},
               {"decoder.cross_k", "model.decoder.layers.1.encoder_attn.k_proj"},
               {"decoder.cross_attn_sum", "model.decoder.layers.1.encoder_attn_layer_norm.input"},
               {"decoder.resid_mid", "model.decoder.layers.1.encoder_attn_layer_norm"},
               {"decoder.mlp_proj", "model.decoder.layers.1.fc2"},
               {"decoder.head", "decoder.head"}});
  expect_rows(names_of(spec, "marian", Naming::kTransformerLens),
              {{"decoder.q", "decoder.blocks.1.q"}});
}

TEST(ForeignNames, StarCoder2AndOlmo) {
  const ModelSpec spec = spec_of([](BlockSpec& block) { make_plain(block); });
  expect_rows(names_of(spec, "starcoder2", Naming::kHuggingFace),
              {{"q", "model.layers.1.self_attn.q_proj"},
               {"mlp_pre", "model.layers.1.mlp.c_fc"},
               {"mlp_act", "model.layers.1.mlp.act"},
               {"mlp_proj", "model.layers.1.mlp.c_proj"}});
  for (const char* family : {"starcoder2", "olmo"}) {
    expect_rows(names_of(spec, family, Naming::kGgml), {{"attn_norm", "attn_norm-1"}});
    expect_rows(names_of(spec, family, Naming::kTransformerLens), {{"q", "blocks.1.q"}});
  }
}

TEST(ForeignNames, PathsOfBlocks) {
  ModelSpec spec = spec_of(make_plain);
  const auto block = [&](Naming naming, const char* family, const SiteId& site) {
    return foreign_block(naming, build_program(spec), family, site);
  };
  const SiteId inside{Site::kQ, 1};
  EXPECT_EQ(block(Naming::kHuggingFace, "gpt2", inside), "transformer.h.1");
  EXPECT_EQ(block(Naming::kHuggingFace, "llama", inside), "model.layers.1");
  EXPECT_EQ(block(Naming::kTransformerLens, "gpt2", inside), "blocks.1");
  EXPECT_EQ(block(Naming::kHuggingFace, "gpt2", {Site::kFinalNorm}), "");
  EXPECT_EQ(block(Naming::kHuggingFace, "palm", inside), "");
  EXPECT_EQ(block(Naming::kGgml, "llama", inside), "");
  EXPECT_EQ(block(Naming::kMainstem, "llama", inside), "");
  spec.head.kind = HeadKind::kNone;
  EXPECT_EQ(block(Naming::kHuggingFace, "bert", inside), "encoder.layer.1");
}

// A file cannot hold two tensors of one name.
TEST(ForeignNames, TellAllValuesApart) {
  const std::vector<const char*> families = {
      "llama",  "mistral",  "gpt2",   "gpt3",    "bert", "gemma", "gemma2",     "gemma3",
      "qwen2",  "qwen3",    "olmo2",  "phi",     "phi3", "opt",   "gptj",       "gpt_neox",
      "falcon", "stablelm", "cohere", "cohere2", "palm", "olmo",  "starcoder2", "torch_transformer",
      "none"};
  int renamed = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    const Program program =
        build_program(random_spec(dice, seed % 3 == 0 ? Kind::kEncoder : Kind::kDecoder));
    for (const char* family : families) {
      for (const Naming naming :
           {Naming::kMainstem, Naming::kHuggingFace, Naming::kTransformerLens, Naming::kGgml}) {
        std::set<ValueId> values;
        std::set<std::string> names;
        for (const NamedValue& named : program.sites) {
          if (!values.insert(named.value).second) continue;
          const std::string name = foreign_name(naming, program, family, named.value, named.site);
          EXPECT_TRUE(names.insert(name).second) << family << ' ' << name << " seed " << seed;
          renamed += name != to_string(named.site) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(renamed, 10000);
}

}  // namespace
}  // namespace mainstem
