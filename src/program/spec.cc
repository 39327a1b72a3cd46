#include "mainstem/spec.h"

#include <cmath>

#include "base/number_text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

// Generous bounds: they keep every product of two sizes inside 63 bits and refuse files that
// describe models nobody has.
constexpr int64_t kMaxWidth = 1 << 24;
constexpr int64_t kMaxHeads = 1 << 16;
constexpr int64_t kMaxVocab = int64_t{1} << 31;
constexpr size_t kMaxBlocks = 1 << 14;

void expect(bool good, const char* field, const std::string& expected, const std::string& got) {
  if (!good) throw bad_input(field, expected, got);
}

void expect_size(int64_t value, int64_t maximum, const char* field) {
  expect(value >= 1 && value <= maximum, field, "1 to " + std::to_string(maximum),
         std::to_string(value));
}

void expect_finite(double value, const char* field) {
  expect(std::isfinite(value), field, "a finite number", number_text(value));
}

void validate(const NormSpec& norm, const char* field) {
  expect(norm.eps >= 0 && std::isfinite(norm.eps), field, "an eps that is not negative",
         number_text(norm.eps));
  expect_finite(norm.weight_offset, field);
}

void validate(const RotarySpec& rotary, int64_t head_width) {
  expect(rotary.width >= 2 && rotary.width <= head_width && rotary.width % 2 == 0, "rotary width",
         "an even number from 2 to the head width " + std::to_string(head_width),
         std::to_string(rotary.width));
  expect(rotary.base > 0 && std::isfinite(rotary.base), "rotary base", "a positive number",
         number_text(rotary.base));
  const RotaryScaling& scaling = rotary.scaling;
  const auto pairs = static_cast<size_t>(rotary.width / 2);
  const auto expect_divisors = [&](const std::vector<double>& list, const char* field) {
    expect(list.size() == pairs, field, std::to_string(pairs) + " divisors",
           std::to_string(list.size()));
    for (double divisor : list) {
      expect(divisor > 0 && std::isfinite(divisor), field, "positive divisors",
             number_text(divisor));
    }
  };
  switch (scaling.kind) {
    case RotaryScalingKind::kNone:
      return;
    case RotaryScalingKind::kDivisors:
      return expect_divisors(scaling.short_divisors, "rotary divisors");
    case RotaryScalingKind::kLongRope:
      expect_divisors(scaling.short_divisors, "rotary short divisors");
      expect_divisors(scaling.long_divisors, "rotary long divisors");
      expect(scaling.original_context != 1, "rotary scaling original context", "2 or more", "1");
      break;
    case RotaryScalingKind::kLlama3:
      expect(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor,
             "rotary scaling frequency factors", "0 < low < high",
             number_text(scaling.low_freq_factor) + ", " + number_text(scaling.high_freq_factor));
      break;
    case RotaryScalingKind::kYarn:
      expect(rotary.base != 1, "rotary base with yarn", "a number other than 1", "1");
      expect(scaling.beta_fast > 0 && scaling.beta_slow > 0, "rotary scaling betas",
             "positive numbers",
             number_text(scaling.beta_fast) + ", " + number_text(scaling.beta_slow));
      break;
    case RotaryScalingKind::kLinear:
    case RotaryScalingKind::kDynamic:
      break;
  }
  for (const auto& factor : {scaling.attention_factor, scaling.mscale, scaling.mscale_all_dim}) {
    if (factor) expect_finite(*factor, "rotary attention factor");
  }
  expect(scaling.factor > 0 && std::isfinite(scaling.factor), "rotary scaling factor",
         "a positive number", number_text(scaling.factor));
  if (scaling.kind != RotaryScalingKind::kLinear) {
    expect_size(scaling.original_context, int64_t{1} << 40, "rotary scaling original context");
  }
}

void validate(const AttentionSpec& attention, int64_t width, bool cross) {
  expect_size(attention.heads, kMaxHeads, "attention heads");
  expect_size(attention.kv_heads, kMaxHeads, "attention kv heads");
  expect_size(attention.head_width, kMaxWidth, "attention head width");
  expect(attention.heads % attention.kv_heads == 0, "attention kv heads",
         "a divisor of the " + std::to_string(attention.heads) + " heads",
         std::to_string(attention.kv_heads));
  expect_size(attention.heads * attention.head_width, kMaxWidth, "heads times head width");
  expect(attention.output_projection || attention.heads * attention.head_width == width,
         "attention without output projection",
         "heads times head width equal to the width " + std::to_string(width),
         std::to_string(attention.heads * attention.head_width));
  expect(attention.output_projection || !attention.output_bias, "attention output bias",
         "an output projection", "none");
  if (attention.rotary) validate(*attention.rotary, attention.head_width);
  expect(!(cross && attention.rotary), "cross attention", "no rotary positions", "rotary");
  expect(!cross || attention.mask == MaskKind::kFull, "cross attention mask", "full",
         std::string(name(attention.mask)));
  if (attention.qk_norm) {
    validate(attention.qk_norm->norm, "q/k norm");
    expect(!(attention.qk_norm->weight_per_head && attention.qk_norm->scope == QkNormScope::kWhole),
           "q/k norm weight per head", "a norm per head", "one over the whole projection");
    expect(!attention.qk_norm->after_rotary || attention.rotary.has_value(),
           "q/k norm after rotary", "rotary positions", "none");
  }
  if (!attention.alibi_slopes.empty()) {
    expect(static_cast<int64_t>(attention.alibi_slopes.size()) == attention.heads, "ALiBi slopes",
           "one for each of " + std::to_string(attention.heads) + " heads",
           std::to_string(attention.alibi_slopes.size()));
    for (double slope : attention.alibi_slopes) expect_finite(slope, "ALiBi slope");
  }
  if (attention.mask == MaskKind::kWindow) {
    expect_size(attention.window, int64_t{1} << 40, "attention window");
  }
  expect_finite(attention.score_scale, "attention score scale");
  expect(attention.score_scale != 0, "attention score scale", "a number other than 0", "0");
  expect(attention.soft_cap >= 0 && std::isfinite(attention.soft_cap), "attention soft cap",
         "0 (none) or a positive number", number_text(attention.soft_cap));
}

void validate(const StackSpec& stack, int64_t vocab_size) {
  expect_size(vocab_size, kMaxVocab, "vocabulary size");
  expect_size(stack.width, kMaxWidth, "width");
  expect_size(stack.embed_width, kMaxWidth, "embedding width");
  expect_finite(stack.embed_scale, "embedding scale");
  if (stack.positions == PositionKind::kLearned) {
    expect_size(stack.position_rows, kMaxVocab, "position rows");
    expect(stack.position_offset >= 0 && stack.position_offset < stack.position_rows,
           "position offset", "0 to less than " + std::to_string(stack.position_rows),
           std::to_string(stack.position_offset));
  }
  expect(stack.token_types >= 0 && stack.token_types <= kMaxVocab, "token types",
         "0 to " + std::to_string(kMaxVocab), std::to_string(stack.token_types));
  if (stack.embed_norm) validate(*stack.embed_norm, "embedding norm");
  if (stack.final_norm) validate(*stack.final_norm, "final norm");
  expect(stack.blocks.size() <= kMaxBlocks, "blocks", "at most " + std::to_string(kMaxBlocks),
         std::to_string(stack.blocks.size()));
  for (size_t i = 0; i < stack.blocks.size(); ++i) {
    with_context("block " + std::to_string(i), [&] {
      expect(stack.blocks[i].width == stack.width, "block width",
             "the stack's width " + std::to_string(stack.width),
             std::to_string(stack.blocks[i].width));
      validate(stack.blocks[i]);
    });
  }
}

}  // namespace

void validate(const BlockSpec& spec) {
  expect_size(spec.width, kMaxWidth, "width");
  validate(spec.norm, "norm");
  expect_finite(spec.residual_multiplier, "residual multiplier");
  validate(spec.attention, spec.width, false);
  if (spec.cross_attention) validate(*spec.cross_attention, spec.width, true);
  if (spec.residual != ResidualForm::kSequential) {
    expect(!spec.cross_attention, "parallel block", "no cross attention", "cross attention");
    expect(spec.placement != NormPlacement::kPost, "parallel block", "norms that are not post",
           std::string(name(spec.placement)));
  }
  if (spec.residual == ResidualForm::kParallelSharedNorm) {
    expect(spec.placement == NormPlacement::kPre || spec.placement == NormPlacement::kSandwich,
           "parallel block with a shared norm", "a norm before the sub-layers",
           std::string(name(spec.placement)));
  }
  expect_size(spec.mlp.hidden, kMaxWidth, "MLP hidden width");
  expect(spec.mlp.gated || !spec.mlp.combined, "combined gate and value", "a gated MLP",
         "a plain one");
}

void validate(const ModelSpec& spec) {
  validate(spec.stack, spec.vocab_size);
  if (spec.encoder) {
    with_context("encoder", [&] {
      validate(*spec.encoder, spec.vocab_size);
      for (const BlockSpec& block : spec.encoder->blocks) {
        expect(!block.cross_attention, "encoder block", "no cross attention", "cross attention");
      }
    });
  }
  if (spec.shared_token_table) {
    const int64_t width = spec.encoder ? spec.encoder->embed_width : 0;
    expect(width == spec.stack.embed_width, "shared token table",
           "an encoder's table as wide as the decoder's, " + std::to_string(spec.stack.embed_width),
           spec.encoder ? std::to_string(width) : "no encoder");
  }
  for (const BlockSpec& block : spec.stack.blocks) {
    expect(!block.cross_attention || spec.encoder, "cross attention", "an encoder", "none");
  }
  if (spec.head.kind == HeadKind::kNone) return;
  const int64_t head_input =
      spec.head.projection_width > 0 ? spec.head.projection_width : spec.stack.width;
  expect(spec.head.projection_width >= 0 && spec.head.projection_width <= kMaxWidth,
         "head projection width", "0 to " + std::to_string(kMaxWidth),
         std::to_string(spec.head.projection_width));
  expect(!spec.head.tied || head_input == spec.stack.embed_width, "tied head",
         "an input as wide as the token table, " + std::to_string(spec.stack.embed_width),
         std::to_string(head_input));
  if (spec.head.kind == HeadKind::kMaskedLanguage) validate(spec.head.norm, "head norm");
  expect_finite(spec.head.logit_scale, "logit scale");
  expect(spec.head.logit_cap >= 0 && std::isfinite(spec.head.logit_cap), "logit cap",
         "0 (none) or a positive number", number_text(spec.head.logit_cap));
}

std::string_view name(NormKind kind) {
  switch (kind) {
    case NormKind::kLayer:
      return "layer";
    case NormKind::kRms:
      return "rms";
  }
  return "?";
}

std::string_view name(NormPlacement placement) {
  switch (placement) {
    case NormPlacement::kPre:
      return "pre";
    case NormPlacement::kPost:
      return "post";
    case NormPlacement::kSandwich:
      return "sandwich";
    case NormPlacement::kOutputOnly:
      return "output-only";
  }
  return "?";
}

std::string_view name(ResidualForm form) {
  switch (form) {
    case ResidualForm::kSequential:
      return "sequential";
    case ResidualForm::kParallel:
      return "parallel";
    case ResidualForm::kParallelSharedNorm:
      return "parallel-shared";
  }
  return "?";
}

std::string_view name(RotaryPairing pairing) {
  switch (pairing) {
    case RotaryPairing::kHalfSplit:
      return "half-split";
    case RotaryPairing::kInterleaved:
      return "interleaved";
  }
  return "?";
}

std::string_view name(RotaryScalingKind kind) {
  switch (kind) {
    case RotaryScalingKind::kNone:
      return "none";
    case RotaryScalingKind::kLinear:
      return "linear";
    case RotaryScalingKind::kDynamic:
      return "dynamic";
    case RotaryScalingKind::kYarn:
      return "yarn";
    case RotaryScalingKind::kLlama3:
      return "llama3";
    case RotaryScalingKind::kLongRope:
      return "longrope";
    case RotaryScalingKind::kDivisors:
      return "divisors";
  }
  return "?";
}

std::string_view name(QkNormScope scope) {
  switch (scope) {
    case QkNormScope::kPerHead:
      return "per-head";
    case QkNormScope::kWhole:
      return "whole";
  }
  return "?";
}

std::string_view name(MaskKind mask) {
  switch (mask) {
    case MaskKind::kCausal:
      return "causal";
    case MaskKind::kFull:
      return "full";
    case MaskKind::kWindow:
      return "window";
  }
  return "?";
}

std::string_view name(HeadKind kind) {
  switch (kind) {
    case HeadKind::kNone:
      return "none";
    case HeadKind::kLinear:
      return "linear";
    case HeadKind::kMaskedLanguage:
      return "masked-language";
  }
  return "?";
}

std::string_view name(PositionKind kind) {
  switch (kind) {
    case PositionKind::kNone:
      return "none";
    case PositionKind::kLearned:
      return "learned";
    case PositionKind::kSinusoidalInterleaved:
      return "sinusoidal";
    case PositionKind::kSinusoidalHalves:
      return "sinusoidal-halves";
  }
  return "?";
}

std::string_view name(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return "relu";
    case Activation::kReluSquared:
      return "relu2";
    case Activation::kGeluErf:
      return "gelu-erf";
    case Activation::kGeluTanh:
      return "gelu-tanh";
    case Activation::kSilu:
      return "silu";
    case Activation::kQuickGelu:
      return "quick-gelu";
  }
  return "?";
}

}  // namespace mainstem
