#include "runtime/plan.h"

#include <algorithm>
#include <map>

#include "kernels/cpu_kernels.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

size_t index(int32_t id) { return static_cast<size_t>(id); }

class Planner {
 public:
  Planner(const Program& program, PlanOptions options)
      : program_(program), options_(std::move(options)) {
    plan_.wanted.resize(program.values.size());
    asked_.resize(program.sites.size());
    for (const SiteId& site : options_.wanted) {
      const auto named = std::find_if(program.sites.begin(), program.sites.end(),
                                      [&](const NamedValue& n) { return n.site == site; });
      if (named == program.sites.end()) {
        throw usage_error("site", "one that this model has", to_string(site));
      }
      asked_[static_cast<size_t>(named - program.sites.begin())] = true;
      plan_.wanted[index(named->value)] = true;
    }
    readers_.resize(program.values.size());
    node_of_.assign(program.values.size(), -1);
    taken_.resize(program.steps.size());
    for (size_t s = 0; s < program.steps.size(); ++s) {
      for (ValueId input : program.steps[s].inputs) {
        readers_[index(input)].push_back(static_cast<StepId>(s));
      }
    }
  }

  Plan make() {
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const auto id = static_cast<StepId>(s);
      if (taken_[s] || is_skipped(id)) continue;
      if (options_.fuse && program_.step(id).op == Op::kNorm && absorb_norm(id)) continue;
      if (options_.fuse && program_.step(id).op == Op::kLinear) {
        add_gemm(id);
      } else {
        add_step(id);
      }
    }
    schedule_deliveries();
    place_values();
    return std::move(plan_);
  }

 private:
  bool hidden(ValueId id) const { return !plan_.wanted[index(id)] && id != program_.output; }

  bool is_skipped(StepId id) const {
    if (!options_.skip_encoder) return false;
    const Step& step = program_.step(id);
    return program_.value(step.output).rows == Rows::kEncoder;
  }

  /// Linear steps that read the same value with no attention between them run as one product.
  std::vector<StepId> product_at(StepId first) const {
    std::vector<StepId> result;
    const ValueId input = program_.step(first).inputs[0];
    for (StepId s = first; s < static_cast<StepId>(program_.steps.size()); ++s) {
      const Step& step = program_.step(s);
      if (step.op == Op::kAttention) break;
      if (step.op == Op::kLinear && step.inputs[0] == input && !taken_[index(s)]) {
        result.push_back(s);
      }
    }
    return result;
  }

  /// A norm whose only readers are one product becomes that product's prologue.
  bool absorb_norm(StepId id) {
    const Step& step = program_.step(id);
    const auto& readers = readers_[index(step.output)];
    if (!hidden(step.output) || readers.empty()) return false;
    if (std::get<NormParams>(step.params).group != program_.value(step.output).width) return false;
    const StepId first = readers.front();
    if (program_.step(first).op != Op::kLinear) return false;
    if (product_at(first) != readers) return false;
    prologue_[step.output] = id;
    return true;
  }

  void add_step(StepId id) {
    const Step& step = program_.step(id);
    PlanNode node;
    node.step = id;
    if (step.op == Op::kAttention) {
      const bool encoder_ready =
          options_.skip_encoder && program_.value(step.inputs[1]).rows == Rows::kEncoder;
      node.copy_keys = !encoder_ready && !cache_written_.contains({id, true});
      node.copy_values = !encoder_ready && !cache_written_.contains({id, false});
    }
    finish_node(std::move(node), {step.output});
  }

  void add_gemm(StepId first) {
    PlanNode node;
    node.is_gemm = true;
    node.input = program_.step(first).inputs[0];
    if (auto found = prologue_.find(node.input); found != prologue_.end()) {
      node.norm = found->second;
      node.input = program_.step(node.norm).inputs[0];
    }
    std::vector<ValueId> made;
    for (StepId linear : product_at(first)) {
      if (taken_[index(linear)]) continue;  // became the value half of a gated pair
      GemmPartPlan part = grow_part(linear);
      made.push_back(part.output);
      node.parts.push_back(std::move(part));
    }
    finish_node(std::move(node), made);
  }

  GemmPartPlan grow_part(StepId linear) {
    GemmPartPlan part;
    part.linear = linear;
    part.output = program_.step(linear).output;
    taken_[index(linear)] = true;
    while (hidden(part.output) && readers_[index(part.output)].size() == 1) {
      const StepId next = readers_[index(part.output)].front();
      if (!absorb(part, next)) break;
      taken_[index(next)] = true;
      part.epilogue.push_back(next);
      part.output = program_.step(next).output;
    }
    note_cache_write(part);
    return part;
  }

  bool absorb(GemmPartPlan& part, StepId next) {
    const Step& step = program_.step(next);
    const auto absorbed = can_absorb(step.op);
    if (!absorbed) return false;
    switch (*absorbed) {
      case Absorbed::kScale:
      case Absorbed::kSoftCap:
      case Absorbed::kActivation:
        return true;
      case Absorbed::kRotary:
        return std::get<RotaryParams>(step.params).head_width % kernels::kPanelRows == 0 &&
               std::get<RotaryParams>(step.params).head_width <= kernels::kMaxRotaryHeadWidth;
      case Absorbed::kAdd:
        return std::all_of(step.inputs.begin(), step.inputs.end(),
                           [&](ValueId term) {
                             return term == part.output || node_of_[index(term)] >= 0;
                           }) &&
               std::count(step.inputs.begin(), step.inputs.end(), part.output) == 1;
      case Absorbed::kGate:
        return absorb_gate(part, step);
    }
    return false;
  }

  /// activation(gate) * value, where value is a product of the same input and nobody looks.
  bool absorb_gate(GemmPartPlan& part, const Step& multiply) {
    if (part.epilogue.size() != 1 || part.value_linear != kNoId) return false;
    if (program_.step(part.epilogue[0]).op != Op::kActivation) return false;
    const ValueId other =
        multiply.inputs[0] == part.output ? multiply.inputs[1] : multiply.inputs[0];
    const StepId linear = program_.value(other).producer;
    const Step& value = program_.step(linear);
    if (value.op != Op::kLinear || taken_[index(linear)]) return false;
    if (value.inputs[0] != program_.step(part.linear).inputs[0]) return false;
    if (!hidden(other) || readers_[index(other)].size() != 1) return false;
    taken_[index(linear)] = true;
    part.value_linear = linear;
    return true;
  }

  void note_cache_write(GemmPartPlan& part) {
    // A value that somebody looks at may be patched before attention reads it: copied later.
    if (!hidden(part.output)) return;
    for (StepId reader : readers_[index(part.output)]) {
      const Step& step = program_.step(reader);
      if (step.op != Op::kAttention) continue;
      const bool is_key = step.inputs[1] == part.output;
      if (!is_key && step.inputs[2] != part.output) continue;
      if (step.inputs[0] == part.output || step.inputs[1] == step.inputs[2]) continue;
      part.cache_of = reader;
      part.is_key = is_key;
      cache_written_.insert({{reader, is_key}, true});
      return;
    }
  }

  void finish_node(PlanNode node, const std::vector<ValueId>& made) {
    const auto number = static_cast<int>(plan_.nodes.size());
    for (ValueId value : made) node_of_[index(value)] = number;
    if (!node.is_gemm) {
      const Step& step = program_.step(node.step);
      for (ValueId value : {step.scores, step.pattern, step.cached_keys, step.cached_values}) {
        if (value != kNoId) node_of_[index(value)] = number;
      }
    }
    plan_.nodes.push_back(std::move(node));
  }

  void schedule_deliveries() {
    deliver_node_.assign(program_.values.size(), -1);
    int due = 0;
    for (size_t i = 0; i < program_.sites.size(); ++i) {
      const ValueId value = program_.sites[i].value;
      if (!asked_[i] || node_of_[index(value)] < 0) continue;
      due = std::max(due, node_of_[index(value)]);
      plan_.nodes[static_cast<size_t>(due)].deliver.push_back(i);
      deliver_node_[index(value)] = due;
    }
  }

  std::vector<ValueId> values_read(const PlanNode& node) const {
    if (!node.is_gemm) return program_.step(node.step).inputs;
    std::vector<ValueId> result{node.input};
    for (const GemmPartPlan& part : node.parts) {
      for (StepId step : part.epilogue) {
        const auto& inputs = program_.step(step).inputs;
        result.insert(result.end(), inputs.begin(), inputs.end());
      }
    }
    return result;
  }

  /// First fit of the values' live intervals into columns of an arena.
  void place_values() {
    const size_t count = program_.values.size();
    std::vector<int> last_use(count, -1);
    for (size_t n = 0; n < plan_.nodes.size(); ++n) {
      for (ValueId value : values_read(plan_.nodes[n])) {
        last_use[index(value)] = static_cast<int>(n);
      }
    }
    plan_.columns.assign(count, -1);
    struct Live {
      int64_t begin, end;
      int until;
    };
    std::array<std::vector<Live>, 3> live;
    for (size_t n = 0; n < plan_.nodes.size(); ++n) {
      const auto now = static_cast<int>(n);
      for (auto& lives : live) std::erase_if(lives, [&](const Live& l) { return l.until < now; });
      for (size_t v = 0; v < count; ++v) {
        const Value& value = program_.values[v];
        if (node_of_[v] != now || value.width == 0) continue;
        if (value.producer != kNoId && program_.step(value.producer).op == Op::kTokens) continue;
        int until = std::max(last_use[v], deliver_node_[v]);
        if (static_cast<ValueId>(v) == program_.output)
          until = static_cast<int>(plan_.nodes.size());
        if (only_cached(static_cast<ValueId>(v))) continue;
        auto& lives = live[static_cast<size_t>(value.rows)];
        std::sort(lives.begin(), lives.end(),
                  [](const Live& a, const Live& b) { return a.begin < b.begin; });
        const int64_t width = (value.width + 15) / 16 * 16;
        int64_t begin = 0;
        for (const Live& other : lives) {
          if (begin + width <= other.begin) break;
          begin = std::max(begin, other.end);
        }
        plan_.columns[v] = begin;
        lives.push_back({begin, begin + width, std::max(until, now)});
        auto& arena = plan_.arena_columns[static_cast<size_t>(value.rows)];
        arena = std::max(arena, begin + width);
      }
    }
  }

  /// Keys and values that a product writes straight into the cache and nobody else reads.
  bool only_cached(ValueId id) const {
    if (!hidden(id)) return false;
    const auto& readers = readers_[index(id)];
    if (readers.size() != 1 || program_.step(readers[0]).op != Op::kAttention) return false;
    const Step& step = program_.step(readers[0]);
    const bool is_key = step.inputs[1] == id;
    if (step.inputs[0] == id) return false;
    return cache_written_.contains({readers[0], is_key});
  }

  const Program& program_;
  PlanOptions options_;
  Plan plan_;
  std::vector<bool> asked_;  // by site of the program
  std::vector<std::vector<StepId>> readers_;
  std::vector<int> node_of_;       // by value; -1: not computed in this plan
  std::vector<int> deliver_node_;  // by value
  std::vector<bool> taken_;        // by step: absorbed already
  std::map<ValueId, StepId> prologue_;
  std::map<std::pair<StepId, bool>, bool> cache_written_;
};

}  // namespace

std::optional<Absorbed> can_absorb(Op op) {
  switch (op) {
    case Op::kScale:
      return Absorbed::kScale;
    case Op::kSoftCap:
      return Absorbed::kSoftCap;
    case Op::kActivation:
      return Absorbed::kActivation;
    case Op::kRotary:
      return Absorbed::kRotary;
    case Op::kAdd:
      return Absorbed::kAdd;
    case Op::kMultiply:
      return Absorbed::kGate;
    case Op::kInput:
    case Op::kTokens:
    case Op::kEmbedTokens:
    case Op::kEmbedPositions:
    case Op::kSinusoid:
    case Op::kEmbedTypes:
    case Op::kNorm:
    case Op::kLinear:
    case Op::kAttention:
    case Op::kSelectRows:
    case Op::kCustom:
      break;
  }
  return {};
}

Plan make_plan(const Program& program, PlanOptions options) {
  return Planner(program, std::move(options)).make();
}

}  // namespace mainstem
