#include "diagnose/causes/place.h"

#include <algorithm>

#include "base/number_text.h"
#include "diagnose/known_faults.h"
#include "mainstem/error.h"

namespace mainstem::causes {

Place::Place(const Program& program, const WeightSources& weights, int layer, bool encoder)
    : program_(std::make_shared<const Program>(program)),
      weights_(&weights),
      layer_(layer),
      stack_name_(!program.spec.encoder ? Stack::kOnly
                  : encoder             ? Stack::kEncoder
                                        : Stack::kDecoder),
      stack_(encoder && program.spec.encoder ? &*program_->spec.encoder : &program_->spec.stack) {
  const auto blocks = static_cast<int>(stack_->blocks.size());
  if (encoder && !program.spec.encoder) {
    throw usage_error("stack", "the only one", "the encoder's");
  }
  if (layer < -1 || layer >= blocks) {
    throw usage_error("block", "0 to " + std::to_string(blocks - 1), std::to_string(layer));
  }
  last_step_ = static_cast<StepId>(program_->steps.size());
  if (program.spec.encoder) {
    // The decoder follows the encoder.
    const ValueId ids = *program_->find_value({.site = Site::kTokens, .stack = Stack::kDecoder});
    (encoder ? last_step_ : first_step_) = program_->value(ids).producer;
  }
  if (layer < 0) return;
  block_ = &stack_->blocks[static_cast<size_t>(layer)];
  find_sub_layers();
  find_attentions();
}

SiteId Place::site_id(Site site) const {
  return {site, is_block_site(site) ? layer_ : -1,
          site == Site::kLogits ? Stack::kOnly : stack_name_};
}

std::optional<ValueId> Place::find(Site site) const { return program_->find_value(site_id(site)); }

bool Place::is(ValueId value, Op op) const {
  return value != kNoId && maker(*program_, value).op == op;
}

bool Place::is_here(const Step& step, StepId id) const {
  return step.layer == layer_ && id >= first_step_ && id < last_step_;
}

std::vector<ValueId> Place::made_by(Op op) const {
  std::vector<ValueId> result;
  for (size_t s = 0; s < program_->steps.size(); ++s) {
    const Step& step = program_->steps[s];
    if (step.op == op && is_here(step, static_cast<StepId>(s))) result.push_back(step.output);
  }
  return result;
}

std::vector<ValueId> Place::readers(ValueId value) const {
  std::vector<ValueId> result;
  for (size_t s = 0; s < program_->steps.size(); ++s) {
    const Step& step = program_->steps[s];
    if (!is_here(step, static_cast<StepId>(s))) continue;
    if (std::find(step.inputs.begin(), step.inputs.end(), value) == step.inputs.end()) continue;
    result.push_back(step.output);
  }
  return result;
}

void Place::find_sub_layers() {
  const auto value = [&](Site site) { return find(site).value_or(kNoId); };
  const bool post = block_->placement == NormPlacement::kPost;
  const bool parallel = block_->residual != ResidualForm::kSequential;
  const auto add = [&](std::string_view label, Site norm, Site out, Site sum, ValueId stream,
                       ValueId result) {
    SubLayer made{.label = label, .norm_site = norm, .out_site = out, .stream = stream};
    made.norm = value(norm);
    made.out = value(out);
    made.result = result;
    made.sum = post ? value(sum) : result;
    sub_layers_.push_back(std::move(made));
  };
  const ValueId pre = value(Site::kResidPre), post_value = value(Site::kResidPost);
  const ValueId mid = parallel ? post_value : value(Site::kResidMid);
  const bool cross = block_->cross_attention.has_value();
  const ValueId between = cross ? value(Site::kCrossResidPre) : mid;
  add("attention", Site::kAttnNorm, Site::kAttnOut, Site::kAttnSum, pre, between);
  sub_layers_.back().first = {value(Site::kQ), value(Site::kK), value(Site::kV)};
  if (cross) {
    add("cross-attention", Site::kCrossAttnNorm, Site::kCrossAttnOut, Site::kCrossAttnSum, between,
        mid);
    sub_layers_.back().first = {value(Site::kCrossQ)};
  }
  add("MLP", Site::kMlpNorm, Site::kMlpOut, Site::kMlpSum, parallel ? pre : mid, post_value);
  for (Site site : {Site::kMlpGate, Site::kMlpValue, Site::kMlpPre}) {
    if (const auto found = find(site)) sub_layers_.back().first.push_back(*found);
  }
}

void Place::find_attentions() {
  for (ValueId mix : made_by(Op::kAttention)) {
    const Step& step = maker(*program_, mix);
    const bool cross = std::get<AttentionParams>(step.params).cross;
    const auto value = [&](Site self, Site other) { return *find(cross ? other : self); };
    attentions_.push_back({.label = cross ? "cross-attention" : "attention",
                           .spec = cross ? &*block_->cross_attention : &block_->attention,
                           .cross = cross,
                           .q = value(Site::kQ, Site::kCrossQ),
                           .k = value(Site::kK, Site::kCrossK),
                           .v = value(Site::kV, Site::kCrossV),
                           .scores = step.scores,
                           .pattern = step.pattern,
                           .mix = mix});
  }
}

std::vector<NormAt> Place::norms() const {
  std::vector<NormAt> result;
  std::vector<ValueId> of_heads;
  for (ValueId value : made_by(Op::kNorm)) {
    // [B,T,H,E] are heads; without an output projection a norm of the heads' mixture gives [B,T,D].
    if (program_->value(value).dims.size() > 3) {
      of_heads.push_back(value);
      continue;
    }
    const Step& step = maker(*program_, value);
    std::string label = this->label(value);
    if (step.weights[0] != kNoId) {
      const std::string& weight = program_->weight(step.weights[0]).name;
      const size_t end = weight.rfind('.');
      const size_t begin = weight.rfind('.', end - 1);
      label = weight.substr(begin == std::string::npos ? 0 : begin + 1,
                            end - (begin == std::string::npos ? 0 : begin + 1));
    }
    result.push_back({std::move(label), {value}});
  }
  for (size_t i = 0; i + 1 < of_heads.size(); i += 2) {
    result.push_back({.label = i == 0 ? "q_norm and k_norm" : "cross q_norm and k_norm",
                      .outputs = {of_heads[i], of_heads[i + 1]},
                      .of_heads = true});
  }
  return result;
}

void Place::add_shown(ValueId value, std::vector<size_t>& sites) const {
  for (size_t i = 0; i < program_->sites.size(); ++i) {
    if (program_->sites[i].value != value) continue;
    sites.push_back(i);
    return;
  }
  for (const Step& step : program_->steps) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] != value) continue;
      add_shown(step.op == Op::kAttention && i < 2 ? step.scores : step.output, sites);
    }
  }
}

std::vector<SiteId> Place::shown(const std::vector<ValueId>& changed) const {
  std::vector<size_t> sites;
  for (ValueId value : changed) add_shown(value, sites);
  std::sort(sites.begin(), sites.end());
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  std::vector<SiteId> result;
  for (size_t site : sites) result.push_back(program_->sites[site].site);
  return result;
}

void Place::sort(std::vector<SiteId>& sites) const {
  std::vector<SiteId> result;
  for (const NamedValue& named : program_->sites) {
    if (std::find(sites.begin(), sites.end(), named.site) != sites.end()) {
      result.push_back(named.site);
    }
  }
  sites = std::move(result);
}

std::optional<Site> Place::if_named(ValueId value, Site moved) const {
  const auto found = find(moved);
  return found == value ? std::optional(moved) : std::nullopt;
}

std::vector<SiteId> Place::shown_behind(ValueId value, Site moved) const {
  if (if_named(value, moved)) return {site_id(moved)};
  return shown(readers(value));
}

std::string Place::label(ValueId value) const {
  const auto sites = shown({value});
  return sites.empty() ? "x" : std::string(name(sites.front().site));
}

void Forms::add(Words words, std::vector<SiteId> shows, Change change,
                std::vector<FreeNumber> numbers) {
  place_.sort(shows);
  if (shows.empty()) return;
  std::string fault(known_fault(cause_, words.yours));
  Form form{.cause = cause_,
            .layer = place_.layer(),
            .yours = std::move(words.yours),
            .reference = std::move(words.reference),
            .usual_place = std::move(words.usual_place),
            .fix = std::move(words.fix),
            .known_fault = std::move(fault),
            .only_rounds = words.only_rounds,
            .shows = std::move(shows),
            .numbers = std::move(numbers),
            .make = {}};
  form.make = [program = place_.shared_program(), change = std::move(change),
               count = form.numbers.size()](Numbers given) {
    if (given.size() != count) {
      throw usage_error("numbers of a mistake", std::to_string(count),
                        std::to_string(given.size()));
    }
    Edited edited{*program};
    change(edited, given);
    drop_unread_weights(edited.program);
    return edited;
  };
  out_.push_back(std::move(form));
}

std::vector<Form> forms_of(const CauseRow& row, const Place& place) {
  std::vector<Form> result;
  Forms forms(place, std::string(row.id), result);
  row.find(place, forms);
  return result;
}

std::optional<WeightSource> source_of(const Place& place, ValueId made, size_t which) {
  const Step& step = maker(place.program(), made);
  if (which >= step.weights.size() || step.weights[which] == kNoId) return std::nullopt;
  const auto found = place.weights().find(place.program().weight(step.weights[which]).name);
  if (found == place.weights().end()) return std::nullopt;
  return found->second;
}

std::vector<ValueId> joined(const std::vector<NormAt>& norms) {
  std::vector<ValueId> result;
  for (const NormAt& norm : norms) {
    result.insert(result.end(), norm.outputs.begin(), norm.outputs.end());
  }
  return result;
}

std::vector<double> without(std::vector<double> usual, double right) {
  std::erase(usual, right);
  return usual;
}

std::string number(double value) { return number_text(value, "{:.6g}"); }

}  // namespace mainstem::causes
