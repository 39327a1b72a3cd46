// The forward of every model, as straight-line code that emits named steps. Compare with
// "Attention Is All You Need" §3 (post-norm), "Language Models are Unsupervised Multitask
// Learners" §2.3 (pre-norm), PaLM §2 (parallel) and the Gemma 2 report §2 (sandwich).

#include "mainstem/error.h"
#include "program/builder.h"

namespace mainstem {
namespace {

/// The names that differ between self-attention, cross-attention and the MLP.
struct SubLayer {
  std::string prefix;  // of its norms' weights
  Site norm, proj, out, sum;
};
const SubLayer kSelfAttention{"attn", Site::kAttnNorm, Site::kAttnProj, Site::kAttnOut,
                              Site::kAttnSum};
const SubLayer kCrossAttention{"cross_attn", Site::kCrossAttnNorm, Site::kCrossAttnProj,
                               Site::kCrossAttnOut, Site::kCrossAttnSum};
const SubLayer kMlp{"mlp", Site::kMlpNorm, Site::kMlpProj, Site::kMlpOut, Site::kMlpSum};

bool norm_before(NormPlacement placement) {
  return placement == NormPlacement::kPre || placement == NormPlacement::kSandwich;
}
bool norm_on_output(NormPlacement placement) {
  return placement == NormPlacement::kSandwich || placement == NormPlacement::kOutputOnly;
}

ValueId normed_input(Builder& b, const BlockSpec& spec, const SubLayer& names, ValueId x) {
  if (!norm_before(spec.placement)) return x;
  return b.at(names.norm, b.norm(x, names.prefix + "_norm", spec.norm));
}

/// What is added to the stream: the sub-layer's result after a norm of its own and a multiplier.
ValueId contribution(Builder& b, const BlockSpec& spec, const SubLayer& names, ValueId y) {
  if (norm_on_output(spec.placement)) y = b.norm(y, names.prefix + "_post_norm", spec.norm);
  if (spec.residual_multiplier != 1) y = b.scale(y, spec.residual_multiplier);
  return b.at(names.out, y);
}

/// stream + contribution, normed where the placement says so.
ValueId rejoin(Builder& b, const BlockSpec& spec, const SubLayer& names, ValueId x, ValueId y) {
  ValueId sum = b.add({x, y});
  if (spec.placement != NormPlacement::kPost) return sum;
  b.at(names.sum, sum);
  return b.norm(sum, names.prefix + "_post_norm", spec.norm);
}

AttentionParams attention_params(const AttentionSpec& spec, bool cross) {
  return {.heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_width = spec.head_width,
          .scale = spec.score_scale,
          .soft_cap = spec.soft_cap,
          .alibi_slopes = spec.alibi_slopes,
          .mask = spec.mask,
          .window = spec.window,
          .cross = cross};
}

ValueId output_projection(Builder& b, const AttentionSpec& spec, const std::string& weight_name,
                          Site site, ValueId mix) {
  if (!spec.output_projection) return mix;
  return b.at(site, b.linear(mix, weight_name, {{'D', b.stack_width()}}, spec.output_bias));
}

ValueId self_attention(Builder& b, const AttentionSpec& spec, ValueId x) {
  const int64_t heads = spec.heads, kv_heads = spec.kv_heads, width = spec.head_width;
  ValueId q = b.at(Site::kQ, b.linear(x, "q", {{'H', heads}, {'E', width}}, spec.q_bias));
  ValueId k = b.at(Site::kK, b.linear(x, "k", {{'K', kv_heads}, {'E', width}}, spec.k_bias));
  ValueId v = b.at(Site::kV, b.linear(x, "v", {{'K', kv_heads}, {'E', width}}, spec.v_bias));

  const auto norms = [&] {
    if (!spec.qk_norm) return;
    q = b.at(Site::kQNorm, b.qk_norm(q, "q_norm", *spec.qk_norm));
    k = b.at(Site::kKNorm, b.qk_norm(k, "k_norm", *spec.qk_norm));
  };
  const bool norm_last = spec.qk_norm && spec.qk_norm->after_rotary;
  if (!norm_last) norms();
  if (spec.rotary) {
    q = b.at(Site::kQRot, b.rotary(q, *spec.rotary));
    k = b.at(Site::kKRot, b.rotary(k, *spec.rotary));
  }
  if (norm_last) norms();

  const ValueId mix = b.at(Site::kAttnMix, b.attention(q, k, v, attention_params(spec, false),
                                                       {Site::kScores, Site::kPattern, true}));
  return output_projection(b, spec, "attn_proj", Site::kAttnProj, mix);
}

ValueId cross_attention(Builder& b, const AttentionSpec& spec, ValueId x, ValueId encoder) {
  const int64_t heads = spec.heads, kv_heads = spec.kv_heads, width = spec.head_width;
  ValueId q =
      b.at(Site::kCrossQ, b.linear(x, "cross_q", {{'H', heads}, {'E', width}}, spec.q_bias));
  ValueId k = b.at(Site::kCrossK,
                   b.linear(encoder, "cross_k", {{'K', kv_heads}, {'E', width}}, spec.k_bias));
  const ValueId v = b.at(
      Site::kCrossV, b.linear(encoder, "cross_v", {{'K', kv_heads}, {'E', width}}, spec.v_bias));
  if (spec.qk_norm) {
    q = b.qk_norm(q, "cross_q_norm", *spec.qk_norm);
    k = b.qk_norm(k, "cross_k_norm", *spec.qk_norm);
  }
  const ValueId mix =
      b.at(Site::kCrossAttnMix, b.attention(q, k, v, attention_params(spec, true),
                                            {Site::kCrossScores, Site::kCrossPattern, false}));
  return output_projection(b, spec, "cross_attn_proj", Site::kCrossAttnProj, mix);
}

ValueId mlp(Builder& b, const MlpSpec& spec, ValueId x) {
  const std::vector<Dim> hidden = {{'F', spec.hidden}};
  ValueId h;
  if (spec.gated) {
    const ValueId gate = b.at(Site::kMlpGate, b.linear(x, "mlp_gate", hidden, spec.up_bias));
    const ValueId value = b.at(Site::kMlpValue, b.linear(x, "mlp_value", hidden, spec.up_bias));
    const ValueId act = b.at(Site::kMlpAct, b.activation(gate, spec.activation));
    h = b.at(Site::kMlpHidden, b.multiply(act, value));
  } else {
    const ValueId pre = b.at(Site::kMlpPre, b.linear(x, "mlp_pre", hidden, spec.up_bias));
    h = b.at(Site::kMlpAct, b.activation(pre, spec.activation));
    b.at(Site::kMlpHidden, h);
  }
  return b.at(Site::kMlpProj, b.linear(h, "mlp_proj", {{'D', b.stack_width()}}, spec.down_bias));
}

/// One block: the stream in, the stream out.
ValueId build_block(Builder& b, const BlockSpec& spec, ValueId x, ValueId encoder) {
  b.at(Site::kResidPre, x);
  const ValueId attn_in = normed_input(b, spec, kSelfAttention, x);
  const ValueId attn_out =
      contribution(b, spec, kSelfAttention, self_attention(b, spec.attention, attn_in));

  if (spec.residual != ResidualForm::kSequential) {
    const bool shared = spec.residual == ResidualForm::kParallelSharedNorm;
    const ValueId mlp_in = shared ? attn_in : normed_input(b, spec, kMlp, x);
    const ValueId mlp_out = contribution(b, spec, kMlp, mlp(b, spec.mlp, mlp_in));
    return b.at(Site::kResidPost, b.add({x, attn_out, mlp_out}));
  }

  ValueId mid = rejoin(b, spec, kSelfAttention, x, attn_out);
  if (spec.cross_attention) {
    b.at(Site::kCrossResidPre, mid);
    const ValueId cross_in = normed_input(b, spec, kCrossAttention, mid);
    const ValueId cross_out = contribution(
        b, spec, kCrossAttention, cross_attention(b, *spec.cross_attention, cross_in, encoder));
    mid = rejoin(b, spec, kCrossAttention, mid, cross_out);
  }
  b.at(Site::kResidMid, mid);
  const ValueId mlp_in = normed_input(b, spec, kMlp, mid);
  const ValueId mlp_out = contribution(b, spec, kMlp, mlp(b, spec.mlp, mlp_in));
  return b.at(Site::kResidPost, rejoin(b, spec, kMlp, mid, mlp_out));
}

ValueId build_embedding(Builder& b, const StackSpec& spec, int64_t vocab_size) {
  const ValueId ids = b.at(Site::kTokens, b.tokens());
  ValueId x = b.at(Site::kTokenEmbed, b.embed_tokens(vocab_size, spec.embed_width, ids));
  if (spec.embed_width != spec.width) {
    x = b.linear(x, "embed_in", {{'D', spec.width}}, false);
  }
  if (spec.embed_scale != 1) x = b.scale(x, spec.embed_scale);

  std::vector<ValueId> terms{x};
  switch (spec.positions) {
    case PositionKind::kNone:
      break;
    case PositionKind::kLearned:
      terms.push_back(
          b.at(Site::kPosEmbed, b.embed_positions(spec.position_rows, spec.position_offset)));
      break;
    case PositionKind::kSinusoidalInterleaved:
    case PositionKind::kSinusoidalHalves:
      terms.push_back(b.at(Site::kPosEmbed, b.sinusoid(spec.positions)));
      break;
  }
  if (spec.token_types > 0) {
    terms.push_back(b.at(Site::kTypeEmbed, b.embed_types(spec.token_types)));
  }
  if (terms.size() > 1) x = b.add(terms);
  if (spec.embed_norm) {
    b.at(Site::kEmbedSum, x);
    x = b.norm(x, "embed_norm", *spec.embed_norm);
  }
  return b.at(Site::kEmbed, x);
}

ValueId build_stack(Builder& b, const StackSpec& spec, int64_t vocab_size, ValueId encoder) {
  ValueId x = build_embedding(b, spec, vocab_size);
  for (size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    b.enter_block(static_cast<int>(layer));
    x = build_block(b, spec.blocks[layer], x, encoder);
    b.leave_block();
  }
  return x;
}

ValueId final_norm(Builder& b, const StackSpec& spec, ValueId x) {
  if (!spec.final_norm) return x;
  return b.at(Site::kFinalNorm, b.norm(x, "final_norm", *spec.final_norm));
}

ValueId build_head(Builder& b, const ModelSpec& spec, ValueId x, const std::string& table_name) {
  const HeadSpec& head = spec.head;
  if (head.kind == HeadKind::kMaskedLanguage) {
    x = b.at(Site::kHeadProj, b.linear(x, "head_proj", {{'D', spec.stack.width}}, true));
    x = b.at(Site::kHeadAct, b.activation(x, head.activation));
    x = b.at(Site::kHeadNorm, b.norm(x, "head_norm", head.norm));
  } else if (head.projection_width > 0) {
    x = b.at(Site::kHeadProj, b.linear(x, "head_proj", {{'D', head.projection_width}}, false));
  }
  x = head.tied ? b.tied_head(x, table_name, head.bias)
                : b.linear(x, "head", {{'V', spec.vocab_size}}, head.bias);
  b.at(Site::kHead, x);
  if (head.logit_scale != 1) x = b.scale(x, head.logit_scale);
  if (head.logit_cap != 0) x = b.soft_cap(x, head.logit_cap);
  return b.at(Site::kLogits, x);
}

}  // namespace

Program build_program(const ModelSpec& spec) {
  validate(spec);
  Builder b(spec);
  ValueId encoder = kNoId;
  if (spec.encoder) {
    b.enter_stack(Stack::kEncoder, spec.encoder->width);
    encoder = final_norm(b, *spec.encoder, build_stack(b, *spec.encoder, spec.vocab_size, kNoId));
  }
  b.enter_stack(spec.encoder ? Stack::kDecoder : Stack::kOnly, spec.stack.width);
  ValueId x = build_stack(b, spec.stack, spec.vocab_size, encoder);
  x = final_norm(b, spec.stack, b.select_rows(x));
  if (spec.head.kind == HeadKind::kNone) return b.finish(x);
  return b.finish(
      build_head(b, spec, x, spec.encoder ? "decoder.token_embed.weight" : "token_embed.weight"));
}

Program build_block_program(const BlockSpec& spec) {
  validate(spec);
  if (spec.cross_attention) {
    throw usage_error("a block on its own", "no cross-attention (it needs an encoder)",
                      "cross-attention");
  }
  ModelSpec model;
  model.vocab_size = 1;
  model.stack.width = model.stack.embed_width = spec.width;
  model.stack.blocks = {spec};
  model.head.kind = HeadKind::kNone;
  Builder b(std::move(model));
  b.enter_stack(Stack::kOnly, spec.width);
  const ValueId x = b.input(spec.width);
  b.enter_block(0);
  const ValueId y = build_block(b, spec, x, kNoId);
  b.leave_block();
  return b.finish(y);
}

}  // namespace mainstem
