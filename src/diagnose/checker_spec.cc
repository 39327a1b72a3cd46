// A program beside the one that its spec builds, step by step on the program's own values.

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/checker.h"
#include "diagnose/checker_numbers.h"
#include "diagnose/edit.h"
#include "diagnose/local_errors.h"

namespace mainstem {
namespace {

/// The norm (or what stands in its place) that reads a weight, wherever it stands.
const Step* norm_that_reads(const Program& program, const std::string& weight) {
  for (const Step& step : program.steps) {
    if (step.op != Op::kNorm && step.op != Op::kCustom) continue;
    if (step.weights.empty() || step.weights[0] == kNoId) continue;
    if (program.weight(step.weights[0]).name == weight) return &step;
  }
  return nullptr;
}

bool has_name(const Program& program, ValueId value) {
  return std::any_of(program.sites.begin(), program.sites.end(),
                     [&](const NamedValue& named) { return named.value == value; });
}

}  // namespace

void Checker::check_norm_weights() {
  // All norm weights are moved at once; each norm must answer on the inputs it had before.
  WeightSources moved = weights_;
  std::vector<std::shared_ptr<Tensor>> copies;
  const auto right = rebuild(program_, program_.spec);
  std::vector<std::string> norms;
  for (const Step& step : right.steps) {
    if (step.op != Op::kNorm || step.weights[0] == kNoId) continue;
    const std::string& weight = right.weight(step.weights[0]).name;
    norms.push_back(weight);
    const auto found = weights_.find(weight);
    if (found == weights_.end()) continue;
    auto values = to_f64(found->second.tensor);
    for (double& value : values) value = value * 1.5 + 0.25;
    auto copy =
        std::make_shared<Tensor>(Tensor::from_f64({static_cast<int64_t>(values.size())}, values));
    moved[weight] = {.tensor = copy->view(), .keep_alive = copy};
  }
  if (norms.empty()) return skip("norm_weights", "no norm has weights");
  const SequenceInput input = make_input(std::min<int64_t>(length(), 2), 8);
  const SiteValues before =
      site_values(bound_, {&input, 1}, threads_, count_sites(program_.sites.size()));
  const auto changed = std::make_shared<BoundProgram>(program_, moved);
  std::string silent;
  std::map<ValueId, double> answer;
  for (const LocalError& error :
       local_errors(changed, {&input, 1}, before, threads_, count_sites(program_.sites.size()))) {
    answer[*program_.find_value(error.site)] = error.relative;
  }
  for (const std::string& weight : norms) {
    if (const Step* step = norm_that_reads(program_, weight)) {
      if (!has_name(program_, step->output)) continue;  // nobody can see it
      const auto found = answer.find(step->output);
      if (found != answer.end() && found->second > kStepSlack) continue;
    }
    silent += (silent.empty() ? "" : ", ") + weight;
  }
  if (silent.size() > 120) silent = silent.substr(0, 117) + "...";
  report("norm_weights", silent.empty(),
         silent.empty() ? fmt::format("all {} norms answer to their weights", norms.size())
                        : "without effect: " + silent);
}

const char* Checker::group_of(const SiteId& id) const {
  const bool in_block = id.layer >= 0;
  const StackSpec& stack =
      id.stack == Stack::kEncoder ? *program_.spec.encoder : program_.spec.stack;
  const NormPlacement placement =
      in_block ? stack.blocks[static_cast<size_t>(id.layer)].placement : NormPlacement::kPre;
  const bool out_norm =
      placement == NormPlacement::kSandwich || placement == NormPlacement::kOutputOnly;
  switch (id.site) {
    case Site::kTokens:
    case Site::kTokenEmbed:
    case Site::kPosEmbed:
    case Site::kTypeEmbed:
    case Site::kEmbedSum:
    case Site::kEmbed:
      return "embedding";
    case Site::kAttnNorm:
    case Site::kCrossAttnNorm:
    case Site::kMlpNorm:
    case Site::kQNorm:
    case Site::kKNorm:
    case Site::kFinalNorm:
    case Site::kHeadNorm:
      return "norms";
    case Site::kQRot:
    case Site::kKRot:
      return "rotary";
    case Site::kQ:
    case Site::kK:
    case Site::kV:
    case Site::kKCache:
    case Site::kVCache:
    case Site::kScores:
    case Site::kPattern:
    case Site::kAttnMix:
    case Site::kAttnProj:
    case Site::kCrossQ:
    case Site::kCrossK:
    case Site::kCrossV:
    case Site::kCrossScores:
    case Site::kCrossPattern:
    case Site::kCrossAttnMix:
    case Site::kCrossAttnProj:
      return "attention";
    case Site::kMlpGate:
    case Site::kMlpValue:
    case Site::kMlpPre:
    case Site::kMlpAct:
    case Site::kMlpHidden:
    case Site::kMlpProj:
      return "mlp";
    case Site::kAttnOut:
    case Site::kCrossAttnOut:
    case Site::kMlpOut:
      return out_norm ? "norms" : "residual_sums";
    case Site::kResidPre:
    case Site::kCrossResidPre:
    case Site::kResidMid:
    case Site::kResidPost:
      return placement == NormPlacement::kPost ? "norms" : "residual_sums";
    case Site::kAttnSum:
    case Site::kCrossAttnSum:
    case Site::kMlpSum:
      return "residual_sums";
    case Site::kHeadProj:
    case Site::kHeadAct:
    case Site::kHead:
    case Site::kLogits:
      return "head";
  }
  return "head";
}

void Checker::compare_with_spec() {
  const SequenceInput input = make_input(std::min<int64_t>(length(), 6), 9);
  const SiteValues values =
      site_values(bound_, {&input, 1}, threads_, count_sites(program_.sites.size()));
  const auto right = std::make_shared<BoundProgram>(rebuild(program_, program_.spec), weights_);
  struct Group {
    const char* id;
    int steps = 0, wrong = 0;
    std::string first = {};
  };
  std::vector<Group> groups = {{"embedding"}, {"norms"},         {"rotary"}, {"attention"},
                               {"mlp"},       {"residual_sums"}, {"head"}};
  for (const LocalError& error :
       local_errors(right, {&input, 1}, values, threads_, count_sites(program_.sites.size()))) {
    const std::string id = group_of(error.site);
    Group& group =
        *std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.id == id; });
    ++group.steps;
    if (!error.missing && error.relative <= kStepSlack) continue;
    if (group.wrong++ > 0) continue;
    group.first = error.missing ? to_string(error.site) + " is missing"
                                : fmt::format("{} differs from the spec's step by {} of its size",
                                              to_string(error.site), to_text(error.relative));
  }
  for (const Group& group : groups) {
    if (group.steps == 0) {
      skip(group.id, "no such steps");
    } else {
      report(group.id, group.wrong == 0,
             group.wrong == 0 ? fmt::format("{} steps do what the spec says", group.steps)
                              : fmt::format("{} of {} steps are wrong; {}", group.wrong,
                                            group.steps, group.first));
    }
  }
}

}  // namespace mainstem
