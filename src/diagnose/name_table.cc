#include "diagnose/name_table.h"

#include <algorithm>

#include "diagnose/foreign_names.h"
#include "diagnose/name_text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

/// A further target of a name: tried where the earlier ones do not fit.
void add_target(Meaning& meaning, const Target& target) {
  if (meaning.kind == NameKind::kUnknown) {
    meaning = meaning_of({target});
    return;
  }
  if (meaning.kind != NameKind::kValues || meaning.parts.size() != 1) return;
  auto& targets = meaning.parts[0].targets;
  if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(target);
}

}  // namespace

Meaning meaning_of(std::vector<Target> targets) {
  return {.kind = NameKind::kValues,
          .parts = {{.targets = std::move(targets), .columns = {}, .width = 0}}};
}

NameTable::NameTable(const Model& model,
                     const std::vector<std::pair<std::string, std::string>>& names)
    : model_(model),
      program_(model.program()),
      lines_(write_out(program_, names)),
      named_(program_.values.size()) {
  for (const NamedValue& each : program_.sites) named_[static_cast<size_t>(each.value)] = true;
  add_own();
  // A name that is written out counts before one that a '*' makes.
  for (const bool one : {true, false}) {
    for (const NameLine& line : lines_) {
      if (one != (line.names.size() == 1)) continue;
      // As our own name is meant: tokens are ids, and keys in a cache the keys of this pass.
      for (const auto& [theirs, site] : line.names) {
        given_.emplace(theirs, names_.at(to_string(site)));
      }
    }
  }
  add_hooks();
  add_bridge();
  add_table_modules();
  add_weight_modules();
  if (model_.family() == "bert") add_bert_modules();
  add_nodes();
  add_node_weights();
  for (const auto& [path, module] : modules_) add_core(path);
}

std::optional<ValueId> NameTable::value(Site site, int layer, Stack stack) const {
  return program_.find_value({site, layer, stack});
}

std::optional<ValueId> NameTable::input_of(ValueId value) const {
  const Step& step = program_.step(program_.value(value).producer);
  if (step.op != Op::kNorm && step.op != Op::kLinear && step.op != Op::kActivation) return {};
  ValueId input = step.inputs[0];
  while (true) {
    const Step& before = program_.step(program_.value(input).producer);
    if (before.op != Op::kSelectRows) break;
    input = before.inputs[0];
  }
  return is_named(input) ? std::optional(input) : std::nullopt;
}

SiteId NameTable::last_name(ValueId value) const {
  const auto named = std::find_if(program_.sites.rbegin(), program_.sites.rend(),
                                  [&](const NamedValue& each) { return each.value == value; });
  return named == program_.sites.rend() ? SiteId{} : named->site;
}

void NameTable::add(const std::string& name, const Target& target) {
  add_target(names_[name], target);
}

void NameTable::add_own() {
  for (const NamedValue& named : program_.sites) {
    const std::string name = to_string(named.site);
    const Step& step = program_.step(program_.value(named.value).producer);
    if (step.op == Op::kTokens) {
      names_[name].kind =
          named.site.stack == Stack::kEncoder ? NameKind::kEncoderTokens : NameKind::kTokens;
    } else if (named.value == step.cached_keys) {
      add(name, {.value = step.inputs[1]});  // the same in a pass that continues nothing
    } else if (named.value == step.cached_values) {
      add(name, {.value = step.inputs[2]});
    } else {
      add(name, {.value = named.value, .site = named.site});
    }
  }
}

void NameTable::add_hooks() {
  const auto scale = [&](Stack stack) {
    return stack == Stack::kEncoder ? program_.spec.encoder->embed_scale
                                    : program_.spec.stack.embed_scale;
  };
  for (const NamedValue& named : program_.sites) {
    const std::string theirs =
        foreign_name(Naming::kTransformerLens, program_, model_.family(), named.value, named.site);
    if (theirs != to_string(named.site)) add(theirs, {.value = named.value, .site = named.site});
    // Written with the scale by some versions and without by others.
    if (theirs != "hook_embed" || scale(named.site.stack) == 1) continue;
    for (Site twin : {Site::kEmbed, Site::kTokenEmbed}) {
      if (const auto other = value(twin, -1, named.site.stack)) add(theirs, {.value = *other});
    }
  }
  for (const NamedValue& named : program_.sites) {
    for (const std::string& theirs : more_names(MoreNames::kHooks, model_.family(), named.site)) {
      add(theirs, {.value = named.value, .site = named.site});
    }
  }
}

void NameTable::add_bridge() {
  for (const NamedValue& named : program_.sites) {
    for (const std::string& path : more_names(MoreNames::kBridge, model_.family(), named.site)) {
      add(path + ".hook_out", {.value = named.value, .site = named.site});
      if (named.site.site == Site::kResidPost) {
        const SiteId before{Site::kResidPre, named.site.layer, named.site.stack};
        add(path + ".hook_in", {.value = *program_.find_value(before), .site = before});
      } else if (const auto input = input_of(named.value)) {
        add(path + ".hook_in", {.value = *input, .site = last_name(*input)});
      }
      const Step& step = program_.step(program_.value(named.value).producer);
      if (step.op != Op::kNorm) continue;
      // Before the weight, but for LayerNorm in TransformerLens 2.
      add(path + ".hook_normalized", {.value = named.value, .convention = Convention::kNormalized});
      add(path + ".hook_normalized", {.value = named.value});
    }
  }
}

// Rows of llama.cpp's nodes ------------------------------------------------------------------

void NameTable::add_nodes() {
  const auto add_node = [&](std::string name, const Target& target) {
    std::string op;
    if (const size_t mark = name.find('#'); mark != std::string::npos) {
      op = name.substr(mark + 1);
      name.resize(mark);
    }
    auto& rows = nodes_[name];
    const auto same = [&](const Node& node) { return node.op == op && node.target == target; };
    if (std::none_of(rows.begin(), rows.end(), same)) rows.push_back({std::move(op), target});
  };
  const auto bias_follows = [&](ValueId value) {
    const Step& step = program_.step(program_.value(value).producer);
    return step.op == Op::kLinear && step.weights[1] != kNoId;
  };
  for (const NamedValue& named : program_.sites) {
    const std::string theirs =
        foreign_name(Naming::kGgml, program_, model_.family(), named.value, named.site);
    if (theirs != to_string(named.site)) {
      add_node(theirs, {.value = named.value, .site = named.site});
    }
    if (named.site.site == Site::kEmbed && model_.family() == "bert") {
      add_node("inp_norm", {.value = named.value});
    }
  }
  for (const NamedValue& named : program_.sites) {
    for (const std::string& theirs : more_names(MoreNames::kNodes, model_.family(), named.site)) {
      if (theirs.starts_with("ffn_down") && bias_follows(named.value)) continue;
      add_node(theirs, {.value = named.value});
    }
    if (named.site.stack == Stack::kEncoder) continue;
    const std::string layer = std::to_string(named.site.layer);
    if (named.site.site == Site::kScores) {
      // Where the architecture has no such node for the scores themselves, it is what SOFT_MAX
      // reads, which scales and masks by itself. Under a soft cap the queries are scaled before.
      if (nodes_.contains("kq-" + layer)) continue;
      const Step& step = program_.step(program_.value(named.value).producer);
      const bool capped = std::get<AttentionParams>(step.params).soft_cap != 0;
      add_node("kq-" + layer,
               {.value = named.value,
                .convention = capped ? Convention::kUncappedScores : Convention::kRawScores});
      if (!capped) add_node("kq-" + layer, {.value = named.value});
    } else if (named.site.site == Site::kQRot) {
      add_node("Qcur_scaled-" + layer,
               {.value = named.value, .convention = Convention::kScaledQuery});
    }
  }
}

}  // namespace mainstem
