// Paths of modules: those of the tables, and those that a model's weights lie in.

#include <algorithm>

#include "diagnose/foreign_names.h"
#include "diagnose/name_table.h"
#include "diagnose/name_text.h"
#include "models/families/family.h"
#include "models/weight_layout.h"
#include "models/weight_names.h"

namespace mainstem {
namespace {

void add_target(Meaning& meaning, const Target& target) {
  if (meaning.kind == NameKind::kUnknown) {
    meaning.kind = NameKind::kValues;
    meaning.parts.resize(1);
  }
  if (meaning.kind != NameKind::kValues || meaning.parts.size() != 1) return;
  auto& targets = meaning.parts[0].targets;
  const auto same = [&](const Target& each) { return each.value == target.value; };
  if (std::none_of(targets.begin(), targets.end(), same)) targets.push_back(target);
}

void add_part(Meaning& meaning, NamePart part) {
  meaning.kind = NameKind::kValues;
  const auto same = [&](const NamePart& each) {
    return each.targets[0].value == part.targets[0].value;
  };
  if (std::none_of(meaning.parts.begin(), meaning.parts.end(), same)) {
    meaning.parts.push_back(std::move(part));
  }
}

const Family* family_of(const Model& model) {
  for (const Family& family : families()) {
    if (family.name == model.family()) return &family;
  }
  return nullptr;
}

bool is_fused(RowLayout rows) {
  switch (rows) {
    case RowLayout::kAll:
    case RowLayout::kPairs:
    case RowLayout::kPerHead:
      return false;
    case RowLayout::kQkv:
    case RowLayout::kQkvPerGroup:
    case RowLayout::kGateValue:
    case RowLayout::kQkvValueGate:
      return true;
  }
  return false;
}

FusedSizes sizes_of(const Program& program, const WeightPlace& place, const std::string& own) {
  const StackSpec& stack = own.starts_with("encoder.") ? *program.spec.encoder : program.spec.stack;
  const BlockSpec& block = stack.blocks[static_cast<size_t>(place.layer)];
  const bool cross = place.part.starts_with("cross_");
  const AttentionSpec& attention = cross ? *block.cross_attention : block.attention;
  return {.heads = attention.heads,
          .kv_heads = attention.kv_heads,
          .head_width = attention.head_width,
          .hidden = block.mlp.hidden};
}

bool is_gguf(const Model& model) { return model.path().extension() == ".gguf"; }

/// The step's output by a program of its own, where the step has such weights.
struct WeightUse {
  const Step& step;
  const WeightInfo& weight;
  WeightPlace place;
};

template <typename Visit>
void for_each_weight(const Model& model, const Visit& visit) {
  const Program& program = model.program();
  const Family* family = family_of(model);
  if (family == nullptr) return;
  for (const Step& step : program.steps) {
    if (step.weights.empty() || step.weights[0] == kNoId) continue;
    const WeightInfo& weight = program.weight(step.weights[0]);
    WeightUse use{step, weight, find_place(*family, weight.name)};
    use.place.blocks = static_cast<int64_t>(program.spec.stack.blocks.size());
    visit(use);
  }
}

std::string without_ending(std::string name, std::string_view ending) {
  if (!name.ends_with(ending)) return {};
  name.resize(name.size() - ending.size());
  return name;
}

}  // namespace

void NameTable::add_module_value(const std::string& path, ValueId value, const SiteId& site) {
  Module& module = modules_[path];
  add_target(module.out, {.value = value, .site = site});
  if (const auto input = input_of(value)) {
    add_target(module.in, {.value = *input, .site = last_name(*input)});
  }
}

void NameTable::add_table_modules() {
  for (const NamedValue& named : program_.sites) {
    const std::string theirs =
        foreign_name(Naming::kHuggingFace, program_, model_.family(), named.value, named.site);
    if (theirs == to_string(named.site)) continue;
    if (std::string path = without_ending(theirs, ".input"); !path.empty()) {
      add_target(modules_[path].in, {.value = named.value, .site = named.site});
      continue;
    }
    add_module_value(theirs, named.value, named.site);
    if (named.site.site != Site::kTokenEmbed && named.site.site != Site::kEmbed) continue;
    if (program_.step(program_.value(named.value).producer).op == Op::kNorm) continue;
    if (theirs.find("drop") != std::string::npos) continue;
    modules_[theirs].in.kind =
        named.site.stack == Stack::kEncoder ? NameKind::kEncoderTokens : NameKind::kTokens;
  }
  for (const NamedValue& named : program_.sites) {
    if (named.site.site != Site::kResidPost) continue;
    const std::string block =
        foreign_block(Naming::kHuggingFace, program_, model_.family(), named.site);
    if (block.empty()) continue;
    add_target(modules_[block].out, {.value = named.value, .site = named.site});
    const SiteId before{Site::kResidPre, named.site.layer, named.site.stack};
    add_target(modules_[block].in, {.value = *program_.find_value(before), .site = before});
  }
}

void NameTable::add_weight_modules() {
  for_each_weight(model_, [&](const WeightUse& use) {
    const Step& step = use.step;
    const bool embeds = step.op == Op::kEmbedTokens;
    if (step.op == Op::kLinear && use.weight.kind == WeightKind::kTable) return;
    const RowLayout rows = use.place.row->hf_layout.rows;
    if (!is_named(step.output) || rows == RowLayout::kPerHead) return;
    std::vector<std::string> names = names_of(use.place.row->hf, use.place);
    if (!is_gguf(model_)) names.push_back(model_.weights().at(use.weight.name).stored_name);
    for (const std::string& name : names) {
      const std::string path = without_ending(name, ".weight");
      if (path.empty() || path.find('{') != std::string::npos) continue;
      // A table that both stacks read is called twice.
      if (embeds && program_.spec.encoder && path.find("coder") == std::string::npos) continue;
      if (!is_fused(rows)) {
        add_module_value(path, step.output);
        continue;
      }
      StoredRows stored =
          stored_rows(rows, use.place.part, sizes_of(program_, use.place, use.weight.name));
      Module& module = modules_[path];
      add_part(module.out, {.targets = {{.value = step.output}},
                            .columns = std::move(stored.order),
                            .width = stored.total});
      if (const auto input = input_of(step.output)) {
        add_target(module.in, {.value = *input, .site = last_name(*input)});
      }
    }
  });
  if (model_.family() == "bert") return;
  std::vector<std::pair<std::string, SiteId>> projections;
  for (const NamedValue& named : program_.sites) {
    const Site site = named.site.site;
    if (site != Site::kAttnProj && site != Site::kCrossAttnProj && site != Site::kMlpProj) continue;
    for (const auto& [path, module] : modules_) {
      if (module.out.parts.size() != 1 || module.out.parts[0].targets[0].value != named.value) {
        continue;
      }
      projections.emplace_back(parent(path), named.site);
    }
  }
  for (const auto& [module, site] : projections) add_sub_layer(module, site);
}

void NameTable::add_sub_layer(const std::string& module, const SiteId& projection) {
  if (module.empty() || is_number(last_component(module))) return;
  const bool cross = projection.site == Site::kCrossAttnProj;
  const bool mlp = projection.site == Site::kMlpProj;
  const auto at = [&](Site site) { return value(site, projection.layer, projection.stack); };
  Module& made = modules_[module];
  add_target(made.out, {.value = *at(projection.site)});
  // Some modules return the stream with their part already added.
  const auto part = at(mlp ? Site::kMlpOut : cross ? Site::kCrossAttnOut : Site::kAttnOut);
  for (const Step& step : program_.steps) {
    if (step.op != Op::kAdd || step.inputs.size() != 2 || !is_named(step.output)) continue;
    if (step.inputs[1] == *part) add_target(made.out, {.value = step.output});
  }
  auto reader = at(cross ? Site::kCrossQ : Site::kQ);
  if (mlp) reader = at(Site::kMlpGate) ? at(Site::kMlpGate) : at(Site::kMlpPre);
  if (const auto input = input_of(*reader)) add_target(made.in, {.value = *input});
  if (mlp) return;
  add_target(made.second,
             {.value = *at(cross ? Site::kCrossPattern : Site::kPattern), .loose = true});
  const std::string block(parent(module));
  if (block.empty() || !is_number(last_component(block))) return;
  add_target(modules_[block].out, {.value = *at(Site::kResidPost)});
  add_target(modules_[block].in, {.value = *at(Site::kResidPre)});
}

/// BERT's sub-layers are cut otherwise: the norm of the sum belongs to the module of the
/// projection.
void NameTable::add_bert_modules() {
  const std::string first = foreign_block(Naming::kHuggingFace, program_, model_.family(),
                                          {Site::kResidPre, 0, Stack::kOnly});
  const std::string base = first.substr(0, first.find("encoder."));
  add_target(modules_[base + "embeddings"].out, {.value = *value(Site::kEmbed, -1, Stack::kOnly)});
  for (const NamedValue& named : program_.sites) {
    if (named.site.site != Site::kResidPost) continue;
    const std::string block =
        foreign_block(Naming::kHuggingFace, program_, model_.family(), named.site);
    const auto at = [&](Site site) { return *value(site, named.site.layer, named.site.stack); };
    const auto put = [&](const std::string& path, Site in, Site out) {
      add_target(modules_[block + path].in, {.value = at(in)});
      add_target(modules_[block + path].out, {.value = at(out)});
    };
    put(".attention.self", Site::kResidPre, Site::kAttnMix);
    put(".attention", Site::kResidPre, Site::kResidMid);
    put(".attention.output", Site::kAttnMix, Site::kResidMid);
    put(".intermediate", Site::kResidMid, Site::kMlpAct);
    put(".output", Site::kMlpHidden, Site::kResidPost);
    for (const char* path : {".attention.self", ".attention"}) {
      add_target(modules_[block + path].second, {.value = at(Site::kPattern), .loose = true});
    }
  }
}

void NameTable::add_core(const std::string& path) {
  static constexpr std::string_view kBases[] = {"model.", "transformer.", "bert.", "gpt_neox.",
                                                "decoder."};
  std::string_view core = path;
  for (std::string_view base : kBases) {
    if (base == "decoder." && program_.spec.encoder) continue;
    if (!core.starts_with(base) || core.size() == base.size()) continue;
    core.remove_prefix(base.size());
    cores_.emplace(core, path);
  }
  // "encoder.layer.0.…" of BERT may come without what stands before its blocks.
  if (program_.spec.encoder || !core.starts_with("encoder.")) return;
  core.remove_prefix(std::string_view("encoder.").size());
  if (has_number(core)) cores_.emplace(core, path);
}

void NameTable::add_node_weights() {
  for_each_weight(model_, [&](const WeightUse& use) {
    if (use.place.row->gguf.empty()) return;
    const Step& step = use.step;
    const bool biased = step.weights.size() > 1 && step.weights[1] != kNoId;
    const RowLayout rows = use.place.row->gguf_layout.rows;
    std::vector<std::string> names = names_of(use.place.row->gguf, use.place);
    Meaning whole;
    if (is_named(step.output)) add_target(whole, {.value = step.output});
    const bool attention = use.place.part == "q" || use.place.part == "k" || use.place.part == "v";
    const auto put = [&](const std::string& name, RowLayout layout) {
      const std::string stem = without_ending(name, ".weight");
      if (stem.empty()) return;
      const std::string key = step.op == Op::kLinear && use.weight.kind == WeightKind::kTable
                                  ? "MUL_MAT " + stem  // the token table as the head
                                  : stem;
      Meaning& made = node_weights_[key + (biased ? ".bias" : ".weight")];
      if (is_fused(layout)) {
        StoredRows stored =
            stored_rows(layout, use.place.part, sizes_of(program_, use.place, use.weight.name));
        add_part(made, {.targets = {{.value = step.output}},
                        .columns = std::move(stored.order),
                        .width = stored.total});
      } else if (made.kind == NameKind::kUnknown) {
        made = whole;
        if (made.kind == NameKind::kUnknown) made.kind = NameKind::kPassing;
      }
      if (biased) node_weights_[key + ".weight"].kind = NameKind::kPassing;
    };
    for (const std::string& name : names) put(name, rows);
    // Where a converter or llama.cpp itself has the three in one.
    if (attention && rows == RowLayout::kAll) {
      put("blk." + std::to_string(use.place.layer) + ".attn_qkv.weight", RowLayout::kQkv);
    }
    if (attention && (rows == RowLayout::kAll || is_fused(rows))) {
      const std::string layer = "-" + std::to_string(use.place.layer);
      for (const char* node : {"wqkv", "wqkv_b", "bqkv"}) {
        if ((std::string_view(node) == "wqkv") == biased) continue;
        StoredRows stored = stored_rows(RowLayout::kQkv, use.place.part,
                                        sizes_of(program_, use.place, use.weight.name));
        add_part(names_[node + layer], {.targets = {{.value = step.output}},
                                        .columns = std::move(stored.order),
                                        .width = stored.total});
      }
    }
  });
  // Rows of q and k that GGUF files hold in another order are computed in that order.
  for_each_weight(model_, [&](const WeightUse& use) {
    if (use.place.row->gguf_layout.rows != RowLayout::kPairs) return;
    const bool query = use.place.part == "q";
    for (const Site site : {query ? Site::kQ : Site::kK, query ? Site::kQRot : Site::kKRot}) {
      if (const auto id = value(site, use.place.layer, Stack::kOnly)) paired_.insert(*id);
    }
  });
}

}  // namespace mainstem
