// Every number that cannot be is refused, and the error names the field.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "mainstem/error.h"
#include "mainstem/program.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

struct Bad {
  std::string names;  ///< part of the error's text
  std::function<void(ModelSpec&)> edit;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

BlockSpec& block(ModelSpec& spec) { return spec.stack.blocks[1]; }
AttentionSpec& attention(ModelSpec& spec) { return block(spec).attention; }
RotarySpec& rotary(ModelSpec& spec) { return *attention(spec).rotary; }
RotaryScaling& scaling(ModelSpec& spec, RotaryScalingKind kind) {
  RotaryScaling& result = rotary(spec).scaling;
  result.kind = kind;
  result.factor = 2;
  result.original_context = 16;
  result.short_divisors = result.long_divisors = {1, 1, 1, 1};
  return result;
}
AttentionSpec& cross(ModelSpec& spec) {
  spec.encoder = spec.stack;
  for (BlockSpec& each : spec.encoder->blocks) each.attention.mask = MaskKind::kFull;
  AttentionSpec result = attention(spec);
  result.rotary.reset();
  result.mask = MaskKind::kFull;
  block(spec).cross_attention = result;
  return *block(spec).cross_attention;
}

const std::vector<Bad>& bad_specs() {
  static const std::vector<Bad> list{
      {"vocabulary size", [](ModelSpec& s) { s.vocab_size = 0; }},
      {"vocabulary size", [](ModelSpec& s) { s.vocab_size = -3; }},
      {"shared token table", [](ModelSpec& s) { s.shared_token_table = true; }},
      {"shared token table",
       [](ModelSpec& s) {
         cross(s);
         s.encoder->embed_width += 1;
         s.shared_token_table = true;
       }},
      {"width", [](ModelSpec& s) { s.stack.width = 0; }},
      {"embedding width", [](ModelSpec& s) { s.stack.embed_width = 0; }},
      {"embedding scale", [](ModelSpec& s) { s.stack.embed_scale = kNan; }},
      {"embedding norm", [](ModelSpec& s) { s.stack.embed_norm = NormSpec{.eps = -1}; }},
      {"final norm", [](ModelSpec& s) { s.stack.final_norm->eps = kInf; }},
      {"final norm", [](ModelSpec& s) { s.stack.final_norm->weight_offset = kNan; }},
      {"position rows", [](ModelSpec& s) { s.stack.positions = PositionKind::kLearned; }},
      {"position offset",
       [](ModelSpec& s) {
         s.stack.positions = PositionKind::kLearned;
         s.stack.position_rows = 4;
         s.stack.position_offset = 4;
       }},
      {"position offset",
       [](ModelSpec& s) {
         s.stack.positions = PositionKind::kLearned;
         s.stack.position_rows = 4;
         s.stack.position_offset = -1;
       }},
      {"token types", [](ModelSpec& s) { s.stack.token_types = -1; }},
      {"block width", [](ModelSpec& s) { block(s).width = 21; }},
      {"block 1", [](ModelSpec& s) { block(s).mlp.hidden = 0; }},
      {"norm", [](ModelSpec& s) { block(s).norm.eps = kNan; }},
      {"norm", [](ModelSpec& s) { block(s).norm.eps = -1e-6; }},
      {"residual multiplier", [](ModelSpec& s) { block(s).residual_multiplier = kInf; }},
      {"heads", [](ModelSpec& s) { attention(s).heads = 0; }},
      {"kv heads", [](ModelSpec& s) { attention(s).kv_heads = 0; }},
      {"kv heads", [](ModelSpec& s) { attention(s).kv_heads = 4; }},
      {"kv heads", [](ModelSpec& s) { attention(s).kv_heads = 12; }},
      {"head width", [](ModelSpec& s) { attention(s).head_width = -2; }},
      {"output projection", [](ModelSpec& s) { attention(s).output_projection = false; }},
      {"output bias",
       [](ModelSpec& s) {
         attention(s).output_projection = false;
         attention(s).output_bias = true;
         attention(s).rotary.reset();
         attention(s).heads = attention(s).kv_heads = 2;
         attention(s).head_width = 11;
       }},
      {"score scale", [](ModelSpec& s) { attention(s).score_scale = 0; }},
      {"score scale", [](ModelSpec& s) { attention(s).score_scale = kNan; }},
      {"soft cap", [](ModelSpec& s) { attention(s).soft_cap = -1; }},
      {"soft cap", [](ModelSpec& s) { attention(s).soft_cap = kInf; }},
      {"ALiBi", [](ModelSpec& s) { attention(s).alibi_slopes = {1, 2}; }},
      {"ALiBi", [](ModelSpec& s) { attention(s).alibi_slopes.assign(6, kNan); }},
      {"window", [](ModelSpec& s) { attention(s).mask = MaskKind::kWindow; }},
      {"rotary width", [](ModelSpec& s) { rotary(s).width = 3; }},
      {"rotary width", [](ModelSpec& s) { rotary(s).width = 0; }},
      {"rotary width", [](ModelSpec& s) { rotary(s).width = 12; }},
      {"rotary base", [](ModelSpec& s) { rotary(s).base = 0; }},
      {"rotary base", [](ModelSpec& s) { rotary(s).base = kInf; }},
      {"factor", [](ModelSpec& s) { scaling(s, RotaryScalingKind::kLinear).factor = 0; }},
      {"factor", [](ModelSpec& s) { scaling(s, RotaryScalingKind::kYarn).factor = kNan; }},
      {"original context",
       [](ModelSpec& s) { scaling(s, RotaryScalingKind::kDynamic).original_context = 0; }},
      {"original context",
       [](ModelSpec& s) { scaling(s, RotaryScalingKind::kLlama3).original_context = -1; }},
      {"frequency factors",
       [](ModelSpec& s) { scaling(s, RotaryScalingKind::kLlama3).high_freq_factor = 1; }},
      {"betas", [](ModelSpec& s) { scaling(s, RotaryScalingKind::kYarn).beta_slow = 0; }},
      {"base with yarn",
       [](ModelSpec& s) {
         scaling(s, RotaryScalingKind::kYarn);
         rotary(s).base = 1;
       }},
      {"attention factor",
       [](ModelSpec& s) { scaling(s, RotaryScalingKind::kYarn).attention_factor = kInf; }},
      {"original context",
       [](ModelSpec& s) { scaling(s, RotaryScalingKind::kLongRope).original_context = 1; }},
      {"short divisors",
       [](ModelSpec& s) { scaling(s, RotaryScalingKind::kLongRope).short_divisors = {1}; }},
      {"long divisors",
       [](ModelSpec& s) { scaling(s, RotaryScalingKind::kLongRope).long_divisors[2] = 0; }},
      {"divisors",
       [](ModelSpec& s) { scaling(s, RotaryScalingKind::kDivisors).short_divisors.clear(); }},
      {"q/k norm",
       [](ModelSpec& s) {
         attention(s).qk_norm.emplace();
         attention(s).qk_norm->norm.eps = -1;
       }},
      {"q/k norm weight per head",
       [](ModelSpec& s) {
         attention(s).qk_norm.emplace();
         attention(s).qk_norm->scope = QkNormScope::kWhole;
         attention(s).qk_norm->weight_per_head = true;
       }},
      {"q/k norm after rotary",
       [](ModelSpec& s) {
         attention(s).rotary.reset();
         attention(s).qk_norm.emplace();
         attention(s).qk_norm->after_rotary = true;
       }},
      {"combined",
       [](ModelSpec& s) {
         block(s).mlp.gated = false;
         block(s).mlp.combined = true;
       }},
      {"parallel",
       [](ModelSpec& s) {
         block(s).residual = ResidualForm::kParallel;
         block(s).placement = NormPlacement::kPost;
       }},
      {"shared norm",
       [](ModelSpec& s) {
         block(s).residual = ResidualForm::kParallelSharedNorm;
         block(s).placement = NormPlacement::kOutputOnly;
       }},
      {"cross attention",
       [](ModelSpec& s) {
         cross(s);
         s.encoder.reset();
       }},
      {"cross attention", [](ModelSpec& s) { cross(s).rotary = rotary(s); }},
      {"cross attention mask", [](ModelSpec& s) { cross(s).mask = MaskKind::kCausal; }},
      {"parallel",
       [](ModelSpec& s) {
         cross(s);
         block(s).residual = ResidualForm::kParallel;
       }},
      {"encoder",
       [](ModelSpec& s) {
         const AttentionSpec a = cross(s);
         s.encoder->blocks[0].cross_attention = a;
       }},
      {"encoder",
       [](ModelSpec& s) {
         cross(s);
         s.encoder->blocks[0].mlp.hidden = -1;
       }},
      {"head projection", [](ModelSpec& s) { s.head.projection_width = -1; }},
      {"tied head",
       [](ModelSpec& s) {
         s.head.tied = true;
         s.stack.embed_width = 7;
       }},
      {"tied head",
       [](ModelSpec& s) {
         s.head.tied = true;
         s.head.projection_width = 7;
       }},
      {"head norm",
       [](ModelSpec& s) {
         s.head.kind = HeadKind::kMaskedLanguage;
         s.head.norm.eps = -1;
       }},
      {"logit scale", [](ModelSpec& s) { s.head.logit_scale = kInf; }},
      {"logit cap", [](ModelSpec& s) { s.head.logit_cap = -2; }},
      {"logit cap", [](ModelSpec& s) { s.head.logit_cap = kNan; }},
  };
  return list;
}

TEST(Validate, ThePlainSpecIsFine) {
  EXPECT_NO_THROW(validate(small_decoder()));
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Dice dice(seed);
    EXPECT_NO_THROW(validate(random_spec(dice, static_cast<Kind>(seed % 3)))) << seed;
  }
}

TEST(Validate, EveryBadFieldIsNamed) {
  for (size_t i = 0; i < bad_specs().size(); ++i) {
    const Bad& bad = bad_specs()[i];
    ModelSpec spec = small_decoder();
    bad.edit(spec);
    try {
      build_program(spec);
      ADD_FAILURE() << "row " << i << " was accepted: " << bad.names;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput) << "row " << i;
      const std::string text = error.what();
      EXPECT_NE(text.find(bad.names), std::string::npos) << "row " << i << ": " << text;
      EXPECT_NE(text.find("expected"), std::string::npos) << text;
      EXPECT_NE(text.find("got"), std::string::npos) << text;
    }
  }
}

/// Sizes whose products would not fit 63 bits are refused, not multiplied.
TEST(Validate, HugeSizesAreRefused) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const std::vector<std::function<void(ModelSpec&)>> edits{
      [](ModelSpec& s) { s.vocab_size = kHuge; },
      [](ModelSpec& s) { s.stack.width = block(s).width = kHuge; },
      [](ModelSpec& s) { s.stack.embed_width = kHuge; },
      [](ModelSpec& s) { attention(s).heads = attention(s).kv_heads = kHuge; },
      [](ModelSpec& s) { attention(s).head_width = kHuge; },
      [](ModelSpec& s) { block(s).mlp.hidden = kHuge; },
      [](ModelSpec& s) { s.stack.token_types = kHuge; },
      [](ModelSpec& s) { s.head.projection_width = kHuge; },
      [](ModelSpec& s) { rotary(s).width = kHuge - 1; },
      [](ModelSpec& s) {
        s.stack.positions = PositionKind::kLearned;
        s.stack.position_rows = kHuge;
      }};
  for (size_t i = 0; i < edits.size(); ++i) {
    ModelSpec spec = small_decoder();
    edits[i](spec);
    EXPECT_THROW(validate(spec), Error) << i;
  }
}

}  // namespace
}  // namespace mainstem::testing
