// Parameters, multiply-adds and cache of well-known models, from specs written by hand.

#include <gtest/gtest.h>

#include <cmath>

#include "mainstem/program.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

struct LlamaSizes {
  int64_t vocab, width, layers, heads, kv_heads, hidden;
  bool tied = false;
  int64_t head_width = 0;
};

ModelSpec llama(const LlamaSizes& n) {
  BlockSpec block;
  block.width = n.width;
  AttentionSpec& a = block.attention;
  a.heads = n.heads;
  a.kv_heads = n.kv_heads;
  a.head_width = n.head_width > 0 ? n.head_width : n.width / n.heads;
  a.score_scale = 1 / std::sqrt(static_cast<double>(a.head_width));
  a.rotary.emplace();
  a.rotary->width = a.head_width;
  block.mlp.hidden = n.hidden;
  ModelSpec spec;
  spec.vocab_size = n.vocab;
  spec.stack.width = spec.stack.embed_width = n.width;
  spec.stack.blocks.assign(static_cast<size_t>(n.layers), block);
  spec.stack.final_norm.emplace();
  spec.head.tied = n.tied;
  return spec;
}

const LlamaSizes kLlama2_7b{32000, 4096, 32, 32, 32, 11008};
const LlamaSizes kLlama3_8b{128256, 4096, 32, 32, 8, 14336};
const LlamaSizes kSmol{49152, 576, 30, 9, 3, 1536, true};

/// LayerNorm with biases everywhere and a plain MLP of 4D.
BlockSpec old_block(int64_t width, int64_t heads) {
  BlockSpec block;
  block.width = width;
  block.norm = {.kind = NormKind::kLayer, .bias = true};
  AttentionSpec& a = block.attention;
  a.heads = a.kv_heads = heads;
  a.head_width = width / heads;
  a.q_bias = a.k_bias = a.v_bias = a.output_bias = true;
  a.score_scale = 0.125;
  block.mlp.hidden = 4 * width;
  block.mlp.gated = false;
  block.mlp.up_bias = block.mlp.down_bias = true;
  return block;
}

ModelSpec gpt2(int64_t width, int64_t layers, int64_t heads) {
  ModelSpec spec;
  spec.vocab_size = 50257;
  spec.stack.width = spec.stack.embed_width = width;
  spec.stack.positions = PositionKind::kLearned;
  spec.stack.position_rows = 1024;
  spec.stack.blocks.assign(static_cast<size_t>(layers), old_block(width, heads));
  spec.stack.final_norm = NormSpec{.kind = NormKind::kLayer, .bias = true};
  spec.head.tied = true;
  return spec;
}

ModelSpec bert(int64_t width, int64_t layers, int64_t heads) {
  ModelSpec spec = gpt2(width, layers, heads);
  spec.vocab_size = 30522;
  spec.stack.position_rows = 512;
  spec.stack.token_types = 2;
  spec.stack.embed_norm = spec.stack.final_norm;
  spec.stack.final_norm.reset();
  for (BlockSpec& block : spec.stack.blocks) {
    block.placement = NormPlacement::kPost;
    block.attention.mask = MaskKind::kFull;
  }
  spec.head.kind = HeadKind::kNone;
  return spec;
}

int64_t parameters(const ModelSpec& spec) { return count(build_program(spec), 0).parameters; }

TEST(Parameters, OfWellKnownModels) {
  EXPECT_EQ(parameters(llama(kLlama2_7b)), 6738415616);
  EXPECT_EQ(parameters(llama({32000, 5120, 40, 40, 40, 13824})), 13015864320);
  EXPECT_EQ(parameters(llama({32000, 8192, 80, 64, 8, 28672})), 68976648192);
  EXPECT_EQ(parameters(llama(kLlama3_8b)), 8030261248);
  EXPECT_EQ(parameters(llama({32000, 4096, 32, 32, 8, 14336})), 7241732096);  // Mistral 7B
  EXPECT_EQ(parameters(llama(kSmol)), 134515008);
  EXPECT_EQ(parameters(llama({256000, 2048, 18, 8, 1, 16384, true, 256})), 2506172416);  // Gemma 2B
  EXPECT_EQ(parameters(gpt2(768, 12, 12)), 124439808);
  EXPECT_EQ(parameters(gpt2(1024, 24, 16)), 354823168);
  EXPECT_EQ(parameters(gpt2(1280, 36, 20)), 774030080);
  EXPECT_EQ(parameters(gpt2(1600, 48, 25)), 1557611200);
  // The published counts of BERT include the pooler, a [D,D] matrix and its bias.
  EXPECT_EQ(parameters(bert(768, 12, 12)), 109482240 - (768 * 768 + 768));
  EXPECT_EQ(parameters(bert(1024, 24, 16)), 335141888 - (1024 * 1024 + 1024));
}

/// The masked-language-model head adds dense, norm and bias; its table is the tied one.
TEST(Parameters, OfTheMaskedLanguageHead) {
  ModelSpec spec = bert(768, 12, 12);
  const int64_t without = parameters(spec);
  spec.head.kind = HeadKind::kMaskedLanguage;
  spec.head.tied = spec.head.bias = true;
  spec.head.norm = {.kind = NormKind::kLayer, .bias = true};
  EXPECT_EQ(parameters(spec) - without, 768 * 768 + 768 + 2 * 768 + 30522);
}

TEST(Parameters, EqualTheSumOverTheWeightsNames) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Dice dice(seed);
    const TestModel model = make_model(random_spec(dice, static_cast<Kind>(seed % 3)), seed);
    int64_t sum = 0;
    for (const auto& [name, tensor] : model.storage) sum += tensor.count();
    EXPECT_EQ(count(model.program(), 0).parameters, sum);
  }
}

TEST(Parameters, ASharedTableCountsOnce) {
  Dice dice(1);
  ModelSpec spec = random_spec(dice, Kind::kEncoderDecoder);
  spec.encoder->embed_width = spec.stack.embed_width;
  const int64_t apart = parameters(spec);
  spec.shared_token_table = true;
  EXPECT_EQ(apart - parameters(spec), spec.vocab_size * spec.stack.embed_width);
}

/// Multiply-adds of one token: every matrix once, and 2 H E for each key it sees.
TEST(MultiplyAdds, AreMatricesPlusAttentionOverTheContext) {
  const ModelSpec spec = llama(kSmol);
  const Program program = build_program(spec);
  const int64_t per_block = 576 * 576 * 2 + 2 * 576 * 192 + 3 * 576 * 1536;
  const int64_t matrices = 30 * per_block + 49152 * 576;
  EXPECT_EQ(count(program, 0).multiply_adds, matrices + 30 * 2 * 576);
  EXPECT_EQ(count(program, 99).multiply_adds, matrices + 30 * 2 * 576 * 100);
}

TEST(MultiplyAdds, AWindowBoundsTheKeys) {
  ModelSpec spec = small_decoder();
  spec.stack.blocks[1].attention.mask = MaskKind::kWindow;
  spec.stack.blocks[1].attention.window = 4;
  const Program program = build_program(spec);
  const int64_t per_key = 2 * 6 * 10;
  const auto at = [&](int64_t context) { return count(program, context).multiply_adds; };
  EXPECT_EQ(at(3) - at(0), 2 * 3 * per_key);
  EXPECT_EQ(at(9) - at(3), 6 * per_key);
}

TEST(Cache, HoldsKeysAndValuesOfEveryLayer) {
  EXPECT_EQ(count(build_program(llama(kLlama2_7b)), 0).kv_values_per_token, 2 * 32 * 4096);
  EXPECT_EQ(count(build_program(llama(kLlama3_8b)), 0).kv_values_per_token, 2 * 32 * 1024);
}

}  // namespace
}  // namespace mainstem::testing
