#include "cli/foreign_names.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace mainstem::cli {
namespace {

/// `#` stands for the block's number. Empty: no name there. transformers 5.24 (modeling_llama.py),
/// TransformerLens 2 (HookedTransformer), llama.cpp (build_llama).
struct NameRow {
  Site site;
  std::string_view hugging_face, transformer_lens, ggml;
};

constexpr std::array kRows = {
    NameRow{Site::kTokenEmbed, "model.embed_tokens", "hook_embed", "embd"},
    NameRow{Site::kPosEmbed, "", "hook_pos_embed", "pos_embd"},
    NameRow{Site::kResidPre, "", "blocks.#.hook_resid_pre", ""},
    NameRow{Site::kAttnNorm, "model.layers.#.input_layernorm", "", "attn_norm-#"},
    NameRow{Site::kQ, "model.layers.#.self_attn.q_proj", "blocks.#.attn.hook_q", "Qcur-#"},
    NameRow{Site::kK, "model.layers.#.self_attn.k_proj", "blocks.#.attn.hook_k", "Kcur-#"},
    NameRow{Site::kV, "model.layers.#.self_attn.v_proj", "blocks.#.attn.hook_v", "Vcur-#"},
    NameRow{Site::kQNorm, "model.layers.#.self_attn.q_norm", "", "Qcur_normed-#"},
    NameRow{Site::kKNorm, "model.layers.#.self_attn.k_norm", "", "Kcur_normed-#"},
    NameRow{Site::kQRot, "", "blocks.#.attn.hook_rot_q", "Qcur-#"},
    NameRow{Site::kKRot, "", "blocks.#.attn.hook_rot_k", "Kcur-#"},
    NameRow{Site::kScores, "", "blocks.#.attn.hook_attn_scores", ""},  // ggml's kq is not scaled
    NameRow{Site::kPattern, "", "blocks.#.attn.hook_pattern", "kq_soft_max-#"},
    NameRow{Site::kAttnMix, "model.layers.#.self_attn.o_proj.input", "blocks.#.attn.hook_z",
            "kqv_out-#"},
    NameRow{Site::kAttnProj, "model.layers.#.self_attn.o_proj", "", "attn_out-#"},
    NameRow{Site::kAttnOut, "", "blocks.#.hook_attn_out", ""},
    NameRow{Site::kResidMid, "model.layers.#.post_attention_layernorm.input",
            "blocks.#.hook_resid_mid", "ffn_inp-#"},
    NameRow{Site::kMlpNorm, "model.layers.#.post_attention_layernorm", "", "ffn_norm-#"},
    NameRow{Site::kMlpGate, "model.layers.#.mlp.gate_proj", "blocks.#.mlp.hook_pre", "ffn_gate-#"},
    NameRow{Site::kMlpValue, "model.layers.#.mlp.up_proj", "blocks.#.mlp.hook_pre_linear",
            "ffn_up-#"},
    NameRow{Site::kMlpPre, "model.layers.#.mlp.up_proj", "blocks.#.mlp.hook_pre", "ffn_up-#"},
    NameRow{Site::kMlpAct, "model.layers.#.mlp.act_fn", "", ""},
    NameRow{Site::kMlpHidden, "model.layers.#.mlp.down_proj.input", "blocks.#.mlp.hook_post",
            "ffn_swiglu-#"},
    NameRow{Site::kMlpProj, "model.layers.#.mlp.down_proj", "", "ffn_out-#"},
    NameRow{Site::kMlpOut, "", "blocks.#.hook_mlp_out", ""},
    NameRow{Site::kResidPost, "model.layers.#", "blocks.#.hook_resid_post", "l_out-#"},
    NameRow{Site::kFinalNorm, "model.norm", "", "result_norm"},
    NameRow{Site::kHead, "", "", ""},
    NameRow{Site::kLogits, "lm_head", "", "result_output"},
};

std::string_view name_in(Naming naming, const NameRow& row) {
  switch (naming) {
    case Naming::kMainstem:
      return {};
    case Naming::kHuggingFace:
      return row.hugging_face;
    case Naming::kTransformerLens:
      return row.transformer_lens;
    case Naming::kGgml:
      return row.ggml;
  }
  return {};
}

/// The op of a llama.cpp node whose name stands for another value too.
std::string_view ggml_op(const Program& program, const SiteId& site, ValueId value) {
  const Site twin = site.site == Site::kQ ? Site::kQRot : Site::kKRot;
  switch (site.site) {
    case Site::kQ:
    case Site::kK: {
      if (!program.find_value({twin, site.layer, site.stack})) return {};
      const Step& step = program.step(program.value(value).producer);
      const bool bias = step.weights.size() > 1 && step.weights[1] != kNoId;
      return bias ? "#ADD" : "#MUL_MAT";
    }
    case Site::kQRot:
    case Site::kKRot:
      return "#ROPE";
    default:
      return {};
  }
}

std::string_view activation_node(const Program& program, const SiteId& site) {
  const auto& blocks = program.spec.stack.blocks;
  if (site.layer < 0 || static_cast<size_t>(site.layer) >= blocks.size()) return {};
  const MlpSpec& mlp = blocks[static_cast<size_t>(site.layer)].mlp;
  switch (mlp.activation) {
    case Activation::kSilu:
      return mlp.gated ? "ffn_swiglu-#" : "ffn_silu-#";
    case Activation::kGeluErf:
    case Activation::kGeluTanh:
      return mlp.gated ? "ffn_geglu-#" : "ffn_gelu-#";
    case Activation::kRelu:
      return mlp.gated ? "ffn_reglu-#" : "ffn_relu-#";
    case Activation::kReluSquared:
    case Activation::kQuickGelu:
      return {};
  }
  return {};
}

}  // namespace

std::string foreign_name(Naming naming, const Program& program, ValueId value, const SiteId& own) {
  if (naming == Naming::kMainstem) return to_string(own);
  const auto name_of = [&](const SiteId& site) {
    // The rows are of models of one stack; two stacks would get the same names twice.
    if (site.stack != Stack::kOnly) return std::string();
    const auto row = std::find_if(kRows.begin(), kRows.end(),
                                  [&](const NameRow& each) { return each.site == site.site; });
    if (row == kRows.end()) return std::string();
    std::string name(name_in(naming, *row));
    if (naming == Naming::kGgml && site.site == Site::kMlpHidden) {
      name = activation_node(program, site);
    }
    if (const size_t at = name.find('#'); at != std::string::npos) {
      name.replace(at, 1, std::to_string(site.layer));
    }
    if (naming == Naming::kGgml) name += ggml_op(program, site, value);
    return name;
  };
  if (const std::string name = name_of(own); !name.empty()) return name;
  // Second names count too: where attn_out is attn_proj, TransformerLens knows it.
  for (const NamedValue& named : program.sites) {
    if (named.value != value) continue;
    if (const std::string name = name_of(named.site); !name.empty()) return name;
  }
  return to_string(own);
}

}  // namespace mainstem::cli
