// The forward of every model once more, whole sequences at a time.

#include "oracle/oracle.h"

#include "oracle/attention.h"
#include "oracle/recorder.h"

namespace mainstem::oracle {
namespace {

/// One stack's rows: where they stand and which of them are padding.
struct Rows {
  std::vector<int64_t> tokens, positions, types;
  int64_t padding = 0;
};

Rows rows_for(const std::vector<int64_t>& tokens, const std::vector<int64_t>& positions,
              const std::vector<int64_t>& types, int64_t padding) {
  Rows rows{tokens, positions, types, padding};
  for (int64_t i = 0; positions.empty() && i < static_cast<int64_t>(tokens.size()); ++i) {
    rows.positions.push_back(i < padding ? 0 : i - padding);
  }
  if (types.empty()) rows.types.assign(tokens.size(), 0);
  return rows;
}

class BlockForward {
 public:
  BlockForward(Recorder& recorder, const BlockSpec& spec, const Rows& rows)
      : r_(recorder), spec_(spec), rows_(rows) {}

  /// `x_name`: the site that made x, empty where x is the block's own input.
  Matrix run(const Matrix& x, const std::string& x_name, const Matrix& encoder,
             int64_t encoder_padding) {
    Matrix stream = x;
    if (x_name.empty()) {
      stream = r_.site("resid_pre", exact(x), {spec_.width});
    } else {
      r_.alias("resid_pre", x_name);
    }
    const Matrix attn_in = before("attn", stream);
    std::string made_by;
    const Matrix self = self_attention(attn_in, made_by);
    const Matrix attn_out = contribution("attn", self, made_by);

    if (spec_.residual != ResidualForm::kSequential) {
      const bool shared = spec_.residual == ResidualForm::kParallelSharedNorm;
      const Matrix mlp_in = shared ? attn_in : before("mlp", stream);
      const Matrix mlp_out = contribution("mlp", mlp(mlp_in), "mlp_proj");
      return r_.site("resid_post", add({exact(stream), exact(attn_out), exact(mlp_out)}),
                     {spec_.width});
    }

    const bool cross = spec_.cross_attention.has_value();
    stream = join("attn", stream, attn_out, cross ? "cross_resid_pre" : "resid_mid");
    if (cross) {
      const Matrix cross_in = before("cross_attn", stream);
      const Matrix mixed = cross_attention(cross_in, encoder, encoder_padding, made_by);
      stream = join("cross_attn", stream, contribution("cross_attn", mixed, made_by), "resid_mid");
    }
    const Matrix mlp_out = contribution("mlp", mlp(before("mlp", stream)), "mlp_proj");
    return join("mlp", stream, mlp_out, "resid_post");
  }

 private:
  Measured block_norm(const std::string& name, const Matrix& x) {
    return norm(x, spec_.norm, spec_.width, r_.weight_if(spec_.norm.weight, name + ".weight"),
                r_.weight_if(spec_.norm.bias, name + ".bias"));
  }

  Measured product(const std::string& name, const Matrix& x, int64_t outputs, bool bias) {
    return linear(x, r_.weight(name + ".weight"), r_.weight_if(bias, name + ".bias"), outputs);
  }

  Matrix before(const std::string& name, const Matrix& x) {
    if (spec_.placement == NormPlacement::kPost || spec_.placement == NormPlacement::kOutputOnly) {
      return x;
    }
    return r_.site(name + "_norm", block_norm(name + "_norm", x), {spec_.width});
  }

  Matrix contribution(const std::string& name, const Matrix& y, const std::string& made_by) {
    const bool normed = spec_.placement == NormPlacement::kSandwich ||
                        spec_.placement == NormPlacement::kOutputOnly;
    if (!normed && spec_.residual_multiplier == 1) {
      r_.alias(name + "_out", r_.full(made_by));
      return y;
    }
    Measured result = normed ? block_norm(name + "_post_norm", y) : exact(y);
    result = scale(result, spec_.residual_multiplier);
    return r_.site(name + "_out", result, {spec_.width});
  }

  Matrix join(const std::string& name, const Matrix& x, const Matrix& y, const std::string& site) {
    const Measured sum = add({exact(x), exact(y)});
    if (spec_.placement != NormPlacement::kPost) return r_.site(site, sum, {spec_.width});
    const Matrix seen = r_.site(name + "_sum", sum, {spec_.width});
    return r_.site(site, block_norm(name + "_post_norm", seen), {spec_.width});
  }

  Measured head_norm(const std::string& name, const Matrix& x, const QkNormSpec& spec,
                     int64_t head_width) {
    const int64_t whole = static_cast<int64_t>(x.at(0).size());
    return norm(x, spec.norm, spec.scope == QkNormScope::kWhole ? whole : head_width,
                r_.weight_if(spec.norm.weight, name + ".weight"),
                r_.weight_if(spec.norm.bias, name + ".bias"));
  }

  Matrix self_attention(const Matrix& x, std::string& made_by) {
    const AttentionSpec& a = spec_.attention;
    const std::vector<int64_t> q_tail{a.heads, a.head_width}, kv_tail{a.kv_heads, a.head_width};
    AttentionInput in;
    in.query_padding = in.key_padding = rows_.padding;
    in.q = r_.site("q", product("q", x, a.heads * a.head_width, a.q_bias), q_tail);
    in.k = r_.site("k", product("k", x, a.kv_heads * a.head_width, a.k_bias), kv_tail);
    in.v = r_.site("v", product("v", x, a.kv_heads * a.head_width, a.v_bias), kv_tail);
    const auto normalise = [&] {
      in.q = r_.site("q_norm", head_norm("q_norm", in.q, *a.qk_norm, a.head_width), q_tail);
      in.k = r_.site("k_norm", head_norm("k_norm", in.k, *a.qk_norm, a.head_width), kv_tail);
    };
    if (a.qk_norm && !a.qk_norm->after_rotary) normalise();
    if (a.rotary) {
      in.q = r_.site("q_rot", rotate(in.q, *a.rotary, a.head_width, rows_.positions), q_tail);
      in.k = r_.site("k_rot", rotate(in.k, *a.rotary, a.head_width, rows_.positions), kv_tail);
    }
    if (a.qk_norm && a.qk_norm->after_rotary) normalise();
    return attend("", a, in, made_by);
  }

  Matrix cross_attention(const Matrix& x, const Matrix& encoder, int64_t padding,
                         std::string& made_by) {
    const AttentionSpec& a = *spec_.cross_attention;
    const int64_t kv = a.kv_heads * a.head_width;
    AttentionInput in;
    in.key_padding = padding;
    in.q = r_.site("cross_q", product("cross_q", x, a.heads * a.head_width, a.q_bias),
                   {a.heads, a.head_width});
    in.k =
        r_.site("cross_k", product("cross_k", encoder, kv, a.k_bias), {a.kv_heads, a.head_width});
    in.v =
        r_.site("cross_v", product("cross_v", encoder, kv, a.v_bias), {a.kv_heads, a.head_width});
    if (a.qk_norm) {
      in.q = head_norm("cross_q_norm", in.q, *a.qk_norm, a.head_width).value;
      in.k = head_norm("cross_k_norm", in.k, *a.qk_norm, a.head_width).value;
    }
    return attend("cross_", a, in, made_by);
  }

  Matrix attend(const std::string& prefix, const AttentionSpec& a, const AttentionInput& in,
                std::string& made_by) {
    const Values scores = r_.site(prefix + "scores", attention_scores(a, in));
    const Values pattern = attention_pattern(a, in, scores);
    const Values seen = r_.site(prefix + "pattern", pattern);
    Values mix = attention_mix(a, in, seen);
    made_by = prefix + "attn_mix";
    const Matrix merged = rows_of(r_.site(made_by, mix));
    if (!a.output_projection) return merged;
    made_by = prefix + "attn_proj";
    return r_.site(made_by, product(made_by, merged, spec_.width, a.output_bias), {spec_.width});
  }

  Matrix mlp(const Matrix& x) {
    const MlpSpec& m = spec_.mlp;
    Matrix hidden;
    if (m.gated) {
      const Matrix gate =
          r_.site("mlp_gate", product("mlp_gate", x, m.hidden, m.up_bias), {m.hidden});
      const Matrix value =
          r_.site("mlp_value", product("mlp_value", x, m.hidden, m.up_bias), {m.hidden});
      const Matrix act = r_.site("mlp_act", activation(gate, m.activation), {m.hidden});
      hidden = r_.site("mlp_hidden", multiply(act, value), {m.hidden});
    } else {
      const Matrix pre = r_.site("mlp_pre", product("mlp_pre", x, m.hidden, m.up_bias), {m.hidden});
      hidden = r_.site("mlp_act", activation(pre, m.activation), {m.hidden});
      r_.alias("mlp_hidden", r_.full("mlp_act"));
    }
    return r_.site("mlp_proj", product("mlp_proj", hidden, spec_.width, m.down_bias),
                   {spec_.width});
  }

  Recorder& r_;
  const BlockSpec& spec_;
  const Rows& rows_;
};

Matrix table_rows(const std::vector<double>& table, int64_t width,
                  const std::vector<int64_t>& rows) {
  Matrix result;
  for (int64_t row : rows) {
    Row values;
    for (int64_t i = 0; i < width; ++i) {
      values.push_back(table.at(static_cast<size_t>(row * width + i)));
    }
    result.push_back(values);
  }
  return result;
}

/// Embedding, blocks and the last norm.
Matrix run_stack(Recorder& r, const StackSpec& spec, const std::string& stack, const Rows& rows,
                 const Matrix& encoder, int64_t encoder_padding) {
  r.set_prefix(stack);
  Measured ids;
  for (int64_t id : rows.tokens) {
    ids.value.push_back({static_cast<double>(id)});
    ids.magnitude.push_back({static_cast<double>(id)});
  }
  r.site("tokens", ids, {});

  const Matrix words = table_rows(r.weight("token_embed.weight"), spec.embed_width, rows.tokens);
  const Matrix seen = r.site("token_embed", exact(words), {spec.embed_width});
  std::string made_by = r.full("token_embed");
  Measured x = exact(seen);
  if (spec.embed_width != spec.width) {
    x = linear(seen, r.weight("embed_in.weight"), nullptr, spec.width);
    made_by.clear();
  }
  if (spec.embed_scale != 1) {
    x = scale(x, spec.embed_scale);
    made_by.clear();
  }
  std::vector<Measured> terms{x};
  if (spec.positions == PositionKind::kLearned) {
    std::vector<int64_t> at = rows.positions;
    for (int64_t& position : at) position += spec.position_offset;
    const Matrix learned = table_rows(r.weight("pos_embed.weight"), spec.width, at);
    terms.push_back(exact(r.site("pos_embed", exact(learned), {spec.width})));
  } else if (spec.positions != PositionKind::kNone) {
    const bool halves = spec.positions == PositionKind::kSinusoidalHalves;
    terms.push_back(
        exact(r.site("pos_embed", sinusoids(rows.positions, spec.width, halves), {spec.width})));
  }
  if (spec.token_types > 0) {
    const Matrix types = table_rows(r.weight("type_embed.weight"), spec.width, rows.types);
    terms.push_back(exact(r.site("type_embed", exact(types), {spec.width})));
  }
  if (terms.size() > 1) {
    x = add(terms);
    made_by.clear();
  }
  if (spec.embed_norm) {
    Matrix sum = x.value;
    if (made_by.empty()) {
      sum = r.site("embed_sum", x, {spec.width});
    } else {
      r.alias("embed_sum", made_by);
    }
    x = norm(sum, *spec.embed_norm, spec.width,
             r.weight_if(spec.embed_norm->weight, "embed_norm.weight"),
             r.weight_if(spec.embed_norm->bias, "embed_norm.bias"));
    made_by.clear();
  }
  Matrix stream = x.value;
  if (made_by.empty()) {
    stream = r.site("embed", x, {spec.width});
  } else {
    r.alias("embed", made_by);
  }
  made_by = r.full("embed");

  for (size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    r.set_prefix(stack, "blocks." + std::to_string(layer) + ".");
    stream =
        BlockForward(r, spec.blocks[layer], rows).run(stream, made_by, encoder, encoder_padding);
    made_by = r.full("resid_post");
  }
  r.set_prefix(stack);
  if (!spec.final_norm) return stream;
  return r.site("final_norm",
                norm(stream, *spec.final_norm, spec.width,
                     r.weight_if(spec.final_norm->weight, "final_norm.weight"),
                     r.weight_if(spec.final_norm->bias, "final_norm.bias")),
                {spec.width});
}

void run_head(Recorder& r, const ModelSpec& spec, Matrix x) {
  const HeadSpec& head = spec.head;
  const int64_t width = spec.stack.width;
  if (head.kind == HeadKind::kMaskedLanguage) {
    x = r.site("head_proj",
               linear(x, r.weight("head_proj.weight"), &r.weight("head_proj.bias"), width),
               {width});
    x = r.site("head_act", activation(x, head.activation), {width});
    x = r.site("head_norm",
               norm(x, head.norm, width, r.weight_if(head.norm.weight, "head_norm.weight"),
                    r.weight_if(head.norm.bias, "head_norm.bias")),
               {width});
  } else if (head.projection_width > 0) {
    x = r.site("head_proj", linear(x, r.weight("head_proj.weight"), nullptr, head.projection_width),
               {head.projection_width});
  }
  const std::string matrix = head.tied ? "token_embed.weight" : "head.weight";
  x = r.site("head",
             linear(x, r.weight(matrix), r.weight_if(head.bias, "head.bias"), spec.vocab_size),
             {spec.vocab_size});
  const std::string made_by = r.full("head");
  r.set_prefix("");
  if (head.logit_scale == 1 && head.logit_cap == 0) return r.alias("logits", made_by);
  Measured logits = scale(exact(x), head.logit_scale);
  if (head.logit_cap != 0) logits = soft_cap(logits, head.logit_cap);
  r.site("logits", logits, {spec.vocab_size});
}

}  // namespace

Trace run(const ModelSpec& spec, const Weights& weights, const Sequence& sequence,
          const Replacements& replace) {
  Recorder recorder(weights, replace);
  Matrix encoder;
  if (spec.encoder) {
    const Rows rows = rows_for(sequence.encoder_tokens, {}, {}, sequence.encoder_left_padding);
    encoder = run_stack(recorder, *spec.encoder, "encoder.", rows, {}, 0);
  }
  const Rows rows =
      rows_for(sequence.tokens, sequence.positions, sequence.token_types, sequence.left_padding);
  const Matrix x = run_stack(recorder, spec.stack, spec.encoder ? "decoder." : "", rows, encoder,
                             sequence.encoder_left_padding);
  if (spec.head.kind != HeadKind::kNone) run_head(recorder, spec, x);
  return recorder.take();
}

Trace run_block(const BlockSpec& spec, const Weights& weights, const Sequence& sequence,
                const Replacements& replace) {
  Recorder recorder(weights, replace);
  const auto width = static_cast<size_t>(spec.width);
  Matrix x;
  for (size_t i = 0; i < sequence.input.size(); i += width) {
    const auto begin = sequence.input.begin() + static_cast<std::ptrdiff_t>(i);
    x.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  const Rows rows =
      rows_for(std::vector<int64_t>(x.size()), sequence.positions, {}, sequence.left_padding);
  recorder.set_prefix("", "blocks.0.");
  BlockForward(recorder, spec, rows).run(x, "", {}, 0);
  return recorder.take();
}

}  // namespace mainstem::oracle
