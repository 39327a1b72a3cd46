#include "diagnose/causes.h"

#include <fmt/format.h>

#include "diagnose/causes/place.h"

namespace mainstem {
namespace causes {
namespace {

constexpr CauseRow kRows[] = {
    {"embed.scale", "the token rows are scaled otherwise, twice, or not at all", "every model",
     embed_scale},
    {"embed.position_offset", "positions are read from other rows of their table",
     "learned or sinusoidal positions", embed_position_offset},
    {"embed.position_kind", "positions are another sinusoid, or none are added",
     "learned or sinusoidal positions", embed_position_kind},
    {"embed.token_type", "token types are left out or read from another row", "a table of types",
     embed_token_type},
    {"norm.eps", "the norms have another eps, or none", "every norm", norm_eps},
    {"norm.eps_outside_root", "eps is added to the root of the variance", "every norm with an eps",
     norm_eps_outside_root},
    {"norm.unbiased_variance", "the variance is divided by n − 1", "LayerNorm",
     norm_unbiased_variance},
    {"norm.kind", "LayerNorm in the place of RMSNorm, or the reverse", "every norm", norm_kind},
    {"norm.weight_offset", "1 is added to the norms' weights that must not be, or left out",
     "every norm with weights", norm_weight_offset},
    {"norm.weight_swapped", "a norm reads the weights of another one, or none",
     "every norm with weights", norm_weight_swapped},
    {"norm.bias_missing", "a norm's bias is left out", "norms with a bias", norm_bias_missing},
    {"norm.missing", "a block's norms are left out", "every norm but those of q, k and the head",
     norm_missing},
    {"norm.placement",
     "the norms stand elsewhere: before the sub-layers, on their outputs or "
     "behind the sums",
     "sequential blocks", norm_placement},
    {"norm.cast_order", "a half-precision norm casts before or behind its weight",
     "every norm with weights; shows in half precision only", norm_cast_order},
    {"weight.transposed", "a square matrix is used transposed", "square matrices",
     weight_transposed},
    {"weight.rows_permuted", "rows of q and k lie in the order of another rotation or head count",
     "rotary positions", weight_rows_permuted},
    {"weight.quant_layout", "the nibbles of quantised blocks are read in another order",
     "matrices in Q4_0, Q4_1, Q5_0, Q5_1, Q4_K or Q5_K; others, converted from them, with a "
     "multiple of 32 inputs",
     weight_quant_layout},
    {"bias.missing", "biases of linear layers are left out", "linear layers with a bias",
     bias_missing},
    {"rope.pairing", "rotary positions turn the other pairs of channels", "rotary positions",
     rope_pairing},
    {"rope.base", "rotary positions have another base", "rotary positions", rope_base},
    {"rope.scaling", "the scaling of rotary frequencies is ignored, or is another one",
     "rotary positions", rope_scaling},
    {"rope.partial", "another number of channels turns, or their exponents go over all of them",
     "rotary positions", rope_partial},
    {"rope.position", "rotary positions are counted otherwise", "rotary positions", rope_position},
    {"rope.missing", "queries and keys are not turned at all, or where they must not be",
     "rotary positions", rope_missing},
    {"rope.twice", "rotary positions are applied twice, or to the values, too", "rotary positions",
     rope_twice},
    {"qk_norm.order", "the norms of q and k stand on the other side of the rotation",
     "norms of q and k with rotary positions", qk_norm_order},
    {"qk_norm.axis", "q and k are normed over all heads instead of each, or the reverse",
     "norms of q and k", qk_norm_axis},
    {"qk_norm.missing", "the norms of q and k are left out", "norms of q and k", qk_norm_missing},
    {"attn.qkv_split", "the fused matrix of q, k and v is split in another layout",
     "every model; usual where the file holds a fused matrix", attn_qkv_split},
    {"attn.kv_swapped", "keys and values are exchanged", "every model", attn_kv_swapped},
    {"attn.scale", "scores are not scaled, or by another number", "every model", attn_scale},
    {"attn.softcap", "scores are capped otherwise, or where they must not be", "every model",
     attn_softcap},
    {"attn.position_bias", "ALiBi has other slopes, is added twice or not at all", "ALiBi",
     attn_position_bias},
    {"attn.causal_mask", "queries see keys that come after them, or other wrong ones",
     "every model", attn_causal_mask},
    {"attn.padding_mask", "padding can be seen", "every model; shows in padded batches",
     attn_padding_mask},
    {"attn.window", "the attention window is another, or is missing",
     "causal attention; shows beyond the window", attn_window},
    {"attn.gqa_mapping", "query head h reads kv head h mod K, or another wrong one",
     "several kv heads, fewer than query heads", attn_gqa_mapping},
    {"attn.head_merge", "heads are merged in the wrong order before the output projection",
     "several heads", attn_head_merge},
    {"mlp.activation", "the MLP has another activation", "every model", mlp_activation},
    {"mlp.gate_value_swapped", "the activation is on the value branch", "gated MLPs",
     mlp_gate_value_swapped},
    {"residual.missing", "a sub-layer replaces the stream, or is not added to it", "every model",
     residual_missing},
    {"residual.doubled", "the stream or the sub-layer's output is added twice", "every model",
     residual_doubled},
    {"residual.source", "something else than the stream is added", "every model", residual_source},
    {"residual.scale", "what is added to the stream is multiplied otherwise", "every model",
     residual_scale},
    {"block.parallel", "a parallel block runs as a sequential one, or the reverse",
     "blocks without cross-attention that do not norm the sums", block_parallel},
    {"head.final_norm", "the last norm is left out, applied twice, or where there is none",
     "every model with a head or a last norm", head_final_norm},
    {"head.tied", "the head has another matrix than its own", "an own head, or two token tables",
     head_tied},
    {"head.softcap", "logits are capped otherwise, or where they must not be",
     "every model with a head", head_softcap},
    {"head.scale", "logits are scaled otherwise, or where they must not be",
     "every model with a head", head_scale},
};

}  // namespace

std::span<const CauseRow> cause_rows() { return kRows; }

}  // namespace causes

std::string yours_text(const Form& form, std::span<const double> numbers) {
  std::string text = form.yours;
  for (size_t n = 0; n < numbers.size(); ++n) {
    text += fmt::format("{}{} = {:.6g}", n == 0 ? ": " : ", ", form.numbers[n].name, numbers[n]);
  }
  return text;
}

std::vector<Form> forms(const Program& program, const WeightSources& weights, int layer,
                        bool encoder) {
  const causes::Place place(program, weights, layer, encoder);
  std::vector<Form> result;
  for (const causes::CauseRow& row : causes::cause_rows()) {
    for (Form& form : causes::forms_of(row, place)) result.push_back(std::move(form));
  }
  return result;
}

std::optional<Form> find_form(const Program& program, const WeightSources& weights, int layer,
                              bool encoder, std::string_view cause, std::string_view yours) {
  const causes::Place place(program, weights, layer, encoder);
  for (const causes::CauseRow& row : causes::cause_rows()) {
    if (row.id != cause) continue;
    for (Form& form : causes::forms_of(row, place)) {
      if (form.yours == yours) return std::move(form);
    }
  }
  return std::nullopt;
}

WeightSources merged(const WeightSources& edited, const WeightSources& others) {
  WeightSources sources = edited;
  for (const auto& [name, source] : others) sources.try_emplace(name, source);
  return sources;
}

Form in_blocks(const Program& program, const WeightSources& weights, const Form& form,
               std::vector<std::pair<int, bool>> blocks) {
  Form result = form;
  result.blocks = std::move(blocks);
  result.make = [&program, &weights, cause = form.cause, yours = form.yours,
                 blocks = result.blocks](std::span<const double> numbers) {
    Edited edited{program, {}};
    for (const auto& [layer, encoder] : blocks) {
      const WeightSources sources = merged(edited.weights, weights);
      const auto here = find_form(edited.program, sources, layer, encoder, cause, yours);
      if (!here || here->numbers.size() != numbers.size()) continue;
      Edited next = here->make(numbers);
      next.weights = merged(next.weights, edited.weights);
      edited = std::move(next);
    }
    return edited;
  };
  return result;
}

}  // namespace mainstem
