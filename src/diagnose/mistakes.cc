// Known mistakes as edits of a program. Each is what people really got wrong in a port.

#include <algorithm>
#include <charconv>

#include "diagnose/edit.h"
#include "mainstem/check.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

/// Edits a program; returns false where there is nothing to edit.
using Edit = bool (*)(Program& program, const Mistake& mistake);

struct MistakeRow {
  MistakeInfo info;
  Edit edit;
};

bool applies(const Mistake& mistake, int layer) {
  return layer >= 0 && (mistake.layer < 0 || mistake.layer == layer);
}

/// Changes the spec's blocks and builds again; the spec in the result stays the right one.
template <typename Change>
bool edit_blocks(Program& program, const Mistake& mistake, Change change) {
  const ModelSpec right = program.spec;
  ModelSpec wrong = right;
  bool changed = false;
  for (size_t i = 0; i < wrong.stack.blocks.size(); ++i) {
    if (applies(mistake, static_cast<int>(i))) changed |= change(wrong.stack.blocks[i]);
  }
  if (!changed) return false;
  program = rebuild(program, wrong);
  program.spec = right;
  return true;
}

/// Calls `change(step, id)` for the steps of an op in the chosen blocks (of the main stack).
template <typename Change>
bool edit_steps(Program& program, const Mistake& mistake, Op op, Change change) {
  bool changed = false;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    if (step.op != op || !applies(mistake, step.layer)) continue;
    if (program.value(step.output).rows == Rows::kEncoder) continue;
    changed |= change(program.steps[s], static_cast<StepId>(s));
  }
  return changed;
}

CustomParams pass_through(const char* note) {
  return {note, [](std::span<const std::span<const double>> in, std::span<double> out, int64_t) {
            std::copy(in[0].begin(), in[0].end(), out.begin());
          }};
}

std::optional<ValueId> site_value(const Program& program, Site site, int layer) {
  for (const NamedValue& named : program.sites) {
    if (named.site.site == site && named.site.layer == layer &&
        named.site.stack != Stack::kEncoder) {
      return named.value;
    }
  }
  return std::nullopt;
}

/// Norms of whole rows inside blocks (not those of q and k).
bool is_stream_norm(const Program& program, const Step& step) {
  return std::get<NormParams>(step.params).group == program.spec.stack.width &&
         program.value(step.inputs[0]).dims.size() == 3;
}

bool norm_eps(Program& program, const Mistake& mistake) {
  return edit_steps(program, mistake, Op::kNorm, [&](Step& step, StepId) {
    auto& norm = std::get<NormParams>(step.params).norm;
    if (!is_stream_norm(program, step) || norm.eps == 0) return false;
    norm.eps = 0;
    return true;
  });
}

bool norm_missing(Program& program, const Mistake& mistake) {
  return edit_steps(program, mistake, Op::kNorm, [&](Step& step, StepId id) {
    if (!is_stream_norm(program, step)) return false;
    replace_by_custom(program, id, pass_through("x, no norm"));
    return true;
  });
}

bool norm_weight_swapped(Program& program, const Mistake& mistake) {
  // The first two stream norms of a block exchange their weights.
  std::vector<int> done;
  Step* first = nullptr;
  return edit_steps(program, mistake, Op::kNorm, [&](Step& step, StepId) {
    if (!is_stream_norm(program, step) || step.weights[0] == kNoId) return false;
    if (std::find(done.begin(), done.end(), step.layer) != done.end()) return false;
    if (first == nullptr || first->layer != step.layer) {
      first = &step;
      return false;
    }
    std::swap(first->weights, step.weights);
    done.push_back(step.layer);
    return true;
  });
}

bool norm_placement(Program& program, const Mistake& mistake) {
  const bool changed = edit_blocks(program, mistake, [](BlockSpec& block) {
    if (block.residual != ResidualForm::kSequential) return false;
    if (block.placement == NormPlacement::kSandwich) return false;
    block.placement =
        block.placement == NormPlacement::kPost ? NormPlacement::kPre : NormPlacement::kPost;
    return true;
  });
  if (!changed) return false;
  // The same weights serve the norms where they now stand.
  const Program right = rebuild(program, program.spec);
  for (WeightInfo& weight : program.weights) {
    if (right.find_weight(weight.name)) continue;
    for (const auto& [from, to] : {std::pair<std::string, std::string>{"_post_norm.", "_norm."},
                                   {"_norm.", "_post_norm."}}) {
      std::string other = weight.name;
      const size_t found = other.find(from);
      if (found == std::string::npos) continue;
      other.replace(found, from.size(), to);
      if (right.find_weight(other)) weight.name = other;
    }
  }
  return true;
}

bool rope_pairing(Program& program, const Mistake& mistake) {
  return edit_steps(program, mistake, Op::kRotary, [](Step& step, StepId) {
    auto& pairing = std::get<RotaryParams>(step.params).rotary.pairing;
    pairing = pairing == RotaryPairing::kHalfSplit ? RotaryPairing::kInterleaved
                                                   : RotaryPairing::kHalfSplit;
    return true;
  });
}

bool rope_base(Program& program, const Mistake& mistake) {
  return edit_steps(program, mistake, Op::kRotary, [](Step& step, StepId) {
    auto& base = std::get<RotaryParams>(step.params).rotary.base;
    base = base == 10000 ? 500000 : 10000;
    return true;
  });
}

bool rope_missing(Program& program, const Mistake& mistake) {
  return edit_steps(program, mistake, Op::kRotary, [&](Step&, StepId id) {
    replace_by_custom(program, id, pass_through("x, not turned"));
    return true;
  });
}

bool attn_scale(Program& program, const Mistake& mistake) {
  return edit_steps(program, mistake, Op::kAttention, [](Step& step, StepId) {
    auto& scale = std::get<AttentionParams>(step.params).scale;
    if (scale == 1) return false;
    scale = 1;
    return true;
  });
}

bool attn_causal_mask(Program& program, const Mistake& mistake) {
  return edit_steps(program, mistake, Op::kAttention, [](Step& step, StepId) {
    auto& params = std::get<AttentionParams>(step.params);
    if (params.cross || params.mask == MaskKind::kFull) return false;
    params.mask = MaskKind::kFull;
    return true;
  });
}

bool attn_gqa_mapping(Program& program, const Mistake& mistake) {
  return edit_steps(program, mistake, Op::kAttention, [](Step& step, StepId) {
    auto& params = std::get<AttentionParams>(step.params);
    if (params.kv_heads == 1 || params.kv_heads == params.heads) return false;
    params.modulo_kv_map = true;
    return true;
  });
}

bool attn_head_merge(Program& program, const Mistake& mistake) {
  std::vector<ValueId> mixes;
  edit_steps(program, mistake, Op::kAttention, [&](Step& step, StepId) {
    if (std::get<AttentionParams>(step.params).heads > 1) mixes.push_back(step.output);
    return false;
  });
  for (ValueId mix : mixes) {
    const auto& dims = program.value(mix).dims;
    const int64_t heads = dims[2].size;
    const int64_t width = dims[3].size;
    insert_custom_after(
        program, mix,
        {"heads merged as [E,H]", [heads, width](std::span<const std::span<const double>> in,
                                                 std::span<double> out, int64_t) {
           for (int64_t h = 0; h < heads; ++h) {
             for (int64_t e = 0; e < width; ++e) {
               out[static_cast<size_t>(e * heads + h)] = in[0][static_cast<size_t>(h * width + e)];
             }
           }
         }});
  }
  return !mixes.empty();
}

bool mlp_gate_value_swapped(Program& program, const Mistake& mistake) {
  return edit_steps(program, mistake, Op::kMultiply, [&](Step& multiply, StepId) {
    const auto gate = site_value(program, Site::kMlpGate, multiply.layer);
    const auto value = site_value(program, Site::kMlpValue, multiply.layer);
    if (!gate || !value) return false;
    Step& act = program.steps[static_cast<size_t>(program.value(multiply.inputs[0]).producer)];
    act.inputs[0] = *value;
    multiply.inputs[1] = *gate;
    return true;
  });
}

bool mlp_activation(Program& program, const Mistake& mistake) {
  return edit_steps(program, mistake, Op::kActivation, [](Step& step, StepId) {
    auto& kind = std::get<ActivationParams>(step.params).activation;
    kind = kind == Activation::kGeluTanh ? Activation::kGeluErf : Activation::kGeluTanh;
    return true;
  });
}

/// The sums that take a sub-layer's contribution back into the stream.
template <typename Change>
bool edit_residuals(Program& program, const Mistake& mistake, Change change) {
  return edit_steps(program, mistake, Op::kAdd, [&](Step& step, StepId) {
    if (step.inputs.size() < 2) return false;
    change(step);
    return true;
  });
}

bool residual_missing(Program& program, const Mistake& mistake) {
  return edit_residuals(program, mistake,
                        [](Step& step) { step.inputs.erase(step.inputs.begin()); });
}

bool residual_doubled(Program& program, const Mistake& mistake) {
  return edit_residuals(program, mistake, [](Step& step) {
    step.inputs.insert(step.inputs.begin(), step.inputs.front());
  });
}

const std::vector<MistakeRow>& rows() {
  static const std::vector<MistakeRow> all = {
      {{"norm.eps", "eps is left out of the norms of a block"}, norm_eps},
      {{"norm.weight_swapped", "the weights of a block's first two norms are exchanged"},
       norm_weight_swapped},
      {{"norm.missing", "a block's norms are left out"}, norm_missing},
      {{"norm.placement", "the norms stand behind the sums instead of before the sub-layers"},
       norm_placement},
      {{"rope.pairing", "rotary positions turn the other pairs of channels"}, rope_pairing},
      {{"rope.base", "rotary positions have another base"}, rope_base},
      {{"rope.missing", "queries and keys are not turned at all"}, rope_missing},
      {{"attn.scale", "scores are not scaled"}, attn_scale},
      {{"attn.causal_mask", "queries see keys that come after them"}, attn_causal_mask},
      {{"attn.gqa_mapping", "query head h reads kv head h mod K"}, attn_gqa_mapping},
      {{"attn.head_merge", "heads are merged in the wrong order before the output projection"},
       attn_head_merge},
      {{"mlp.activation", "the MLP has another activation"}, mlp_activation},
      {{"mlp.gate_value_swapped", "the activation is on the value branch"}, mlp_gate_value_swapped},
      {{"residual.missing", "a sub-layer replaces the stream instead of adding to it"},
       residual_missing},
      {{"residual.doubled", "the stream is added twice"}, residual_doubled},
  };
  return all;
}

std::string list_ids() {
  std::string text;
  for (const MistakeRow& row : rows()) text += (text.empty() ? "" : ", ") + row.info.id;
  return text;
}

const MistakeRow& find_row(const std::string& id) {
  for (const MistakeRow& row : rows()) {
    if (row.info.id == id) return row;
  }
  throw usage_error("mistake", "one of " + list_ids(), id);
}

}  // namespace

Mistake parse_mistake(const std::string& text) {
  Mistake mistake;
  const size_t at = text.find('@');
  mistake.id = text.substr(0, at);
  find_row(mistake.id);
  if (at == std::string::npos) return mistake;
  const char* begin = text.data() + at + 1;
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(begin, end, mistake.layer);
  if (status != std::errc() || stop != end || mistake.layer < 0) {
    throw usage_error("block of a mistake", "a number from 0, as in " + mistake.id + "@3",
                      text.substr(at + 1));
  }
  return mistake;
}

const std::vector<MistakeInfo>& known_mistakes() {
  static const std::vector<MistakeInfo> infos = [] {
    std::vector<MistakeInfo> result;
    for (const MistakeRow& row : rows()) result.push_back(row.info);
    return result;
  }();
  return infos;
}

Program make_mistake(const Program& program, const Mistake& mistake) {
  const auto blocks = static_cast<int>(program.spec.stack.blocks.size());
  if (mistake.layer >= blocks) {
    throw usage_error("block of a mistake", "0 to " + std::to_string(blocks - 1),
                      std::to_string(mistake.layer));
  }
  Program edited = program;
  if (!find_row(mistake.id).edit(edited, mistake)) {
    throw usage_error("mistake " + mistake.id, "a model that it can be made in",
                      "one without anything to break that way");
  }
  return edited;
}

}  // namespace mainstem
