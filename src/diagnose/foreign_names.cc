#include "diagnose/foreign_names.h"

#include <algorithm>
#include <optional>

#include "diagnose/foreign_tables.h"

namespace mainstem {
namespace {

const StackSpec& stack_of(const Program& program, const SiteId& site) {
  return site.stack == Stack::kEncoder ? *program.spec.encoder : program.spec.stack;
}

const BlockSpec* block_of(const Program& program, const SiteId& site) {
  const auto& blocks = stack_of(program, site).blocks;
  const auto layer = static_cast<size_t>(site.layer);
  return site.layer >= 0 && layer < blocks.size() ? &blocks[layer] : nullptr;
}

/// Where a family's modules depend on its config: the rows that come before the family's own.
const FamilyNames* variant_names(std::string_view family, const Program& program,
                                 const SiteId& site) {
  const BlockSpec* block = block_of(program, site);
  if (block == nullptr) return nullptr;
  if (family == "opt" && block->placement == NormPlacement::kPost) {
    return family_names("opt, post-norm");
  }
  if (family == "falcon" && block->residual == ResidualForm::kParallel) {
    return family_names("falcon, two norms");
  }
  if (family == "marian" && site.stack == Stack::kEncoder) return family_names("marian, encoder");
  return nullptr;
}

SiteNames list_of(Naming naming, const FamilyNames& names) {
  switch (naming) {
    case Naming::kMainstem:
      break;
    case Naming::kHuggingFace:
      return names.hugging_face;
    case Naming::kTransformerLens:
      return names.transformer_lens;
    case Naming::kGgml:
      return names.ggml;
  }
  return {};
}

SiteNames list_of(MoreNames kind, const FamilyNames& names) {
  switch (kind) {
    case MoreNames::kBridge:
      return names.bridge;
    case MoreNames::kHooks:
      return names.more_hooks;
    case MoreNames::kNodes:
      return names.more_nodes;
  }
  return {};
}

bool has_bias(const Program& program, ValueId value) {
  const Step& step = program.step(program.value(value).producer);
  return step.op == Op::kLinear && step.weights.size() > 1 && step.weights[1] != kNoId;
}

/// llama.cpp's name of a gated product, or of a plain MLP's activation.
std::string_view activation_node(const MlpSpec& mlp) {
  switch (mlp.activation) {
    case Activation::kSilu:
      return mlp.gated ? "ffn_swiglu-%" : "ffn_silu-%";
    case Activation::kGeluErf:
    case Activation::kGeluTanh:
      return mlp.gated ? "ffn_geglu-%" : "ffn_gelu-%";
    case Activation::kRelu:
      return mlp.gated ? "ffn_reglu-%" : "ffn_relu-%";
    case Activation::kReluSquared:
    case Activation::kQuickGelu:
      return {};
  }
  return {};
}

void replace(std::string& text, char mark, std::string_view with) {
  if (const size_t at = text.find(mark); at != std::string::npos) text.replace(at, 1, with);
}

class Names {
 public:
  Names(Naming naming, const Program& program, std::string_view family, ValueId value)
      : naming_(naming),
        program_(program),
        family_(family),
        own_(family_names(family)),
        value_(value) {}

  /// Empty: that world has no name for it.
  std::string of(const SiteId& site) const {
    if (naming_ == Naming::kGgml) return node(site);
    return path(std::string(pattern(site)), site);
  }

  std::string block(const SiteId& site) const {
    const bool has_paths = naming_ == Naming::kHuggingFace || naming_ == Naming::kTransformerLens;
    return has_paths && is_known() && site.layer >= 0 ? path("*", site) : "";
  }

 private:
  std::string path(std::string name, const SiteId& site) const {
    const bool modules = naming_ == Naming::kHuggingFace;
    replace(name, '*', modules ? family().block : "blocks.%");
    replace(name, '@', site.stack == Stack::kEncoder ? "encoder" : "decoder");
    replace(name, '%', std::to_string(site.layer));
    // A model without a head is the base model itself.
    if (modules && program_.spec.head.kind == HeadKind::kNone) name.erase(0, name.find('.') + 1);
    return name;
  }

  const FamilyNames& family() const { return own_ != nullptr ? *own_ : shared_names(); }

  bool is_known() const {
    switch (naming_) {
      case Naming::kMainstem:
        return false;
      case Naming::kHuggingFace:
        return family().in_hugging_face;
      case Naming::kTransformerLens:
        return family().in_transformer_lens;
      case Naming::kGgml:
        return family().in_ggml;
    }
    return false;
  }

  std::string_view pattern(const SiteId& site) const {
    if (!is_known()) return {};
    for (const FamilyNames* names :
         {variant_names(family_, program_, site), own_, &shared_names()}) {
      if (names == nullptr) continue;
      for (const SiteName& row : list_of(naming_, *names)) {
        if (row.site == site.site) return row.name;
      }
    }
    return {};
  }

  /// llama.cpp: some names tell the activation, a bias, or by its op which of several it is.
  std::string node(const SiteId& site) const {
    std::string name(pattern(site));
    if (name.empty()) return name;
    const BlockSpec* block = block_of(program_, site);
    switch (site.site) {
      case Site::kMlpHidden:
        if (block != nullptr) name = activation_node(block->mlp);
        break;
      case Site::kMlpGate:
      case Site::kMlpValue:
      case Site::kMlpPre:
        if (has_bias(program_, value_)) replace(name, '-', "_b-");
        break;
      case Site::kQ:
      case Site::kK:
      case Site::kV:
        name += projection_op(site);
        break;
      case Site::kQRot:
      case Site::kKRot:
        name += "#ROPE";
        break;
      default:
        break;
    }
    replace(name, '%', std::to_string(site.layer));
    return name;
  }

  std::string_view projection_op(const SiteId& site) const {
    const auto rotated = [&](Site twin) {
      return program_.find_value({twin, site.layer, site.stack}).has_value();
    };
    const bool repeated = (site.site == Site::kQ && rotated(Site::kQRot)) ||
                          (site.site == Site::kK && rotated(Site::kKRot));
    if (family().fused_qkv) return repeated ? "#VIEW" : "";
    if (has_bias(program_, value_)) return "#ADD";  // without it the product has the name too
    return repeated ? "#MUL_MAT" : "";
  }

  Naming naming_;
  const Program& program_;
  std::string_view family_;
  const FamilyNames* own_;
  ValueId value_;
};

}  // namespace

std::vector<std::string> more_names(MoreNames kind, std::string_view family, const SiteId& site) {
  std::vector<std::string> found;
  // A family's rows for a site stand in the place of the shared ones.
  for (const FamilyNames* names : {family_names(family), &shared_names()}) {
    if (names == nullptr) continue;
    bool has_rows = false;
    for (const SiteName& row : list_of(kind, *names)) {
      if (row.site != site.site) continue;
      has_rows = true;
      std::string name(row.name);
      replace(name, '*', "blocks.%");
      replace(name, '%', std::to_string(site.layer));
      if (!name.empty()) found.push_back(std::move(name));
    }
    if (has_rows && kind == MoreNames::kBridge) break;
  }
  return found;
}

std::string foreign_name(Naming naming, const Program& program, std::string_view family,
                         ValueId value, const SiteId& own) {
  const Names names(naming, program, family, value);
  if (std::string name = names.of(own); !name.empty()) return name;
  // Second names count too: where attn_out is attn_proj, TransformerLens knows it.
  for (const NamedValue& named : program.sites) {
    if (named.value != value) continue;
    if (std::string name = names.of(named.site); !name.empty()) return name;
  }
  return to_string(own);
}

std::string foreign_block(Naming naming, const Program& program, std::string_view family,
                          const SiteId& site) {
  return Names(naming, program, family, kNoId).block(site);
}

}  // namespace mainstem
