// Random specs. Sizes are odd, heads, kv heads and head widths differ from each other and from
// the width, and no number is a family's default.

#include <cmath>

#include "support/random_model.h"

namespace mainstem::testing {
namespace {

NormSpec random_norm(Dice& dice) {
  return {.kind = dice.pick<NormKind>({NormKind::kLayer, NormKind::kRms}),
          .eps = dice.pick<double>({3e-7, 2.5e-5, 1e-3, 0.07}),
          .weight_offset = dice.chance(0.3) ? dice.pick<double>({1, -0.5, 0.25}) : 0,
          .weight = !dice.chance(0.15),
          .bias = dice.chance(0.5)};
}

RotarySpec random_rotary(Dice& dice, int64_t head_width) {
  RotarySpec rotary;
  rotary.pairing =
      dice.pick<RotaryPairing>({RotaryPairing::kHalfSplit, RotaryPairing::kInterleaved});
  const int64_t most = head_width / 2 * 2;
  rotary.width =
      dice.chance(0.5) ? most : 2 * dice.between(std::min<int64_t>(2, most / 2), most / 2);
  rotary.base = dice.pick<double>({50, 777, 10000, 500000});
  RotaryScaling& s = rotary.scaling;
  s.kind = dice.pick<RotaryScalingKind>(
      {RotaryScalingKind::kNone, RotaryScalingKind::kNone, RotaryScalingKind::kLinear,
       RotaryScalingKind::kDynamic, RotaryScalingKind::kYarn, RotaryScalingKind::kLlama3,
       RotaryScalingKind::kLongRope, RotaryScalingKind::kDivisors});
  // The rule of transformers divides by width - 2.
  if (s.kind == RotaryScalingKind::kDynamic && rotary.width == 2) s.kind = RotaryScalingKind::kNone;
  s.factor = dice.pick<double>({1.5, 2, 3.7, 8});
  s.original_context = dice.between(5, 40);
  s.low_freq_factor = dice.uniform(0.5, 1.5);
  s.high_freq_factor = dice.uniform(2, 6);
  s.beta_fast = dice.uniform(2, 8);
  s.beta_slow = dice.uniform(0.3, 1.5);
  s.truncate = dice.chance(0.5);
  if (dice.chance(0.3)) s.attention_factor = dice.uniform(0.8, 1.4);
  if (dice.chance(0.4)) {
    s.mscale = dice.uniform(0.5, 1.5);
    s.mscale_all_dim = dice.chance(0.3) ? 0 : dice.uniform(0.5, 1.5);
  }
  for (int64_t j = 0; j < rotary.width / 2; ++j) {
    s.short_divisors.push_back(dice.uniform(0.7, 2));
    s.long_divisors.push_back(dice.uniform(1.5, 5));
  }
  return rotary;
}

AttentionSpec random_attention(Dice& dice, int64_t width, bool bidirectional, bool cross) {
  AttentionSpec a;
  a.output_projection = !dice.chance(0.15);
  a.kv_heads = dice.between(1, 3);
  a.heads = a.kv_heads * dice.between(1, 3);
  a.head_width = dice.pick<int64_t>({3, 5, 6, 7, 8, 10, 12, 16, 20, 32});
  if (!a.output_projection) {
    // H * E must be the width.
    a.heads = width % 3 == 0 ? 3 : (width % 2 == 0 ? 2 : 1);
    a.kv_heads = dice.chance(0.5) ? a.heads : 1;
    a.head_width = width / a.heads;
  }
  a.q_bias = dice.chance(0.4);
  a.k_bias = dice.chance(0.4);
  a.v_bias = dice.chance(0.4);
  a.output_bias = a.output_projection && dice.chance(0.4);
  if (!cross && dice.chance(0.6) && a.head_width >= 2) a.rotary = random_rotary(dice, a.head_width);
  if (dice.chance(0.4)) {
    QkNormSpec qk;
    qk.scope = dice.pick<QkNormScope>({QkNormScope::kPerHead, QkNormScope::kWhole});
    qk.norm = random_norm(dice);
    qk.weight_per_head = qk.scope == QkNormScope::kPerHead && dice.chance(0.4);
    qk.after_rotary = a.rotary.has_value() && dice.chance(0.4);
    a.qk_norm = qk;
  }
  if (!cross && dice.chance(0.25)) {
    for (int64_t h = 0; h < a.heads; ++h) a.alibi_slopes.push_back(dice.uniform(-0.2, 0.5));
  }
  a.mask = MaskKind::kFull;
  if (!cross && !bidirectional) {
    a.mask = dice.pick<MaskKind>({MaskKind::kCausal, MaskKind::kWindow});
    a.window = a.mask == MaskKind::kWindow ? dice.between(1, 9) : 0;
  }
  a.score_scale = dice.uniform(0.6, 1.4) / std::sqrt(static_cast<double>(a.head_width));
  if (dice.chance(0.1)) a.score_scale = -a.score_scale;
  a.soft_cap = dice.chance(0.3) ? dice.uniform(0.5, 5) : 0;
  return a;
}

StackSpec random_stack(Dice& dice, bool bidirectional, int64_t width) {
  StackSpec stack;
  stack.width = width;
  stack.embed_width = dice.chance(0.2) ? dice.between(5, 19) : width;
  stack.embed_scale = dice.chance(0.3) ? dice.uniform(0.5, 2) : 1;
  stack.positions = dice.pick<PositionKind>(
      {PositionKind::kNone, PositionKind::kNone, PositionKind::kLearned,
       PositionKind::kSinusoidalInterleaved, PositionKind::kSinusoidalHalves});
  stack.position_offset = dice.between(0, 3);
  stack.position_rows = 64 + stack.position_offset;
  stack.token_types = dice.chance(0.25) ? dice.between(1, 3) : 0;
  if (dice.chance(0.3)) stack.embed_norm = random_norm(dice);
  if (!dice.chance(0.25)) stack.final_norm = random_norm(dice);
  const int64_t layers = dice.between(1, 3);
  for (int64_t layer = 0; layer < layers; ++layer) {
    const bool repeat = layer > 0 && dice.chance(0.4);
    stack.blocks.push_back(repeat ? stack.blocks.back() : random_block(dice, width, bidirectional));
  }
  return stack;
}

}  // namespace

BlockSpec random_block(Dice& dice, int64_t width, bool bidirectional) {
  BlockSpec block;
  block.width = width;
  block.norm = random_norm(dice);
  block.residual =
      dice.pick<ResidualForm>({ResidualForm::kSequential, ResidualForm::kSequential,
                               ResidualForm::kParallel, ResidualForm::kParallelSharedNorm});
  block.placement =
      dice.pick<NormPlacement>({NormPlacement::kPre, NormPlacement::kPost, NormPlacement::kSandwich,
                                NormPlacement::kOutputOnly});
  if (block.residual == ResidualForm::kParallel && block.placement == NormPlacement::kPost) {
    block.placement = NormPlacement::kOutputOnly;
  }
  if (block.residual == ResidualForm::kParallelSharedNorm) {
    block.placement = dice.pick<NormPlacement>({NormPlacement::kPre, NormPlacement::kSandwich});
  }
  block.residual_multiplier = dice.chance(0.3) ? dice.uniform(0.3, 1.2) : 1;
  block.attention = random_attention(dice, width, bidirectional, false);
  block.mlp.hidden = dice.between(5, 41);
  block.mlp.gated = dice.chance(0.5);
  block.mlp.combined = block.mlp.gated && dice.chance(0.3);
  block.mlp.activation =
      dice.pick<Activation>({Activation::kRelu, Activation::kReluSquared, Activation::kGeluErf,
                             Activation::kGeluTanh, Activation::kSilu, Activation::kQuickGelu});
  block.mlp.up_bias = dice.chance(0.4);
  block.mlp.down_bias = dice.chance(0.4);
  return block;
}

ModelSpec random_spec(Dice& dice, Kind kind) {
  ModelSpec spec;
  spec.vocab_size = dice.between(11, 53);
  const int64_t width = dice.pick<int64_t>({8, 9, 15, 18, 22, 33});
  if (kind == Kind::kEncoderDecoder) {
    spec.encoder = random_stack(dice, true, dice.pick<int64_t>({8, 10, 21}));
  }
  spec.stack = random_stack(dice, kind == Kind::kEncoder, width);
  if (kind == Kind::kEncoderDecoder) {
    for (BlockSpec& block : spec.stack.blocks) {
      if (block.residual != ResidualForm::kSequential || dice.chance(0.15)) continue;
      block.cross_attention = random_attention(dice, width, true, true);
    }
  }
  HeadSpec& head = spec.head;
  head.kind = dice.pick<HeadKind>(
      {HeadKind::kLinear, HeadKind::kLinear, HeadKind::kMaskedLanguage, HeadKind::kNone});
  if (head.kind == HeadKind::kLinear && dice.chance(0.25)) {
    head.projection_width = dice.between(6, 17);
  }
  const int64_t input = head.projection_width > 0 ? head.projection_width : width;
  head.tied = dice.chance(0.5);
  if (head.tied && input != spec.stack.embed_width) {
    // A projection out of the stream makes a tied table fit, as in OPT-350M.
    if (head.kind == HeadKind::kLinear) {
      head.projection_width = spec.stack.embed_width;
    } else {
      head.tied = false;
    }
  }
  head.bias = dice.chance(0.4);
  head.activation = dice.pick<Activation>({Activation::kGeluErf, Activation::kRelu});
  head.norm = random_norm(dice);
  head.logit_scale = dice.chance(0.3) ? dice.uniform(0.1, 3) : 1;
  head.logit_cap = dice.chance(0.3) ? dice.uniform(0.5, 5) : 0;
  return spec;
}

ModelSpec small_decoder() {
  BlockSpec block;
  block.width = 22;
  block.norm = {.kind = NormKind::kRms, .eps = 3e-4};
  block.attention.heads = 6;
  block.attention.kv_heads = 2;
  block.attention.head_width = 10;
  block.attention.score_scale = 0.33;
  block.attention.rotary.emplace();
  block.attention.rotary->width = 8;
  block.attention.rotary->base = 500;
  block.mlp.hidden = 37;
  ModelSpec spec;
  spec.vocab_size = 31;
  spec.stack.width = spec.stack.embed_width = 22;
  spec.stack.blocks = {block, block};
  spec.stack.final_norm = NormSpec{.kind = NormKind::kRms, .eps = 2e-3};
  return spec;
}

bool depends_on_length(const ModelSpec& spec) {
  const auto in_stack = [](const StackSpec& stack) {
    for (const BlockSpec& block : stack.blocks) {
      if (!block.attention.rotary) continue;
      const RotaryScalingKind kind = block.attention.rotary->scaling.kind;
      if (kind == RotaryScalingKind::kDynamic || kind == RotaryScalingKind::kLongRope) return true;
    }
    return false;
  };
  return in_stack(spec.stack) || (spec.encoder && in_stack(*spec.encoder));
}

int64_t count_blocks(const ModelSpec& spec) {
  return static_cast<int64_t>(spec.stack.blocks.size() +
                              (spec.encoder ? spec.encoder->blocks.size() : 0));
}

}  // namespace mainstem::testing
