#include "diagnose/cut_program.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "diagnose/edit.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

size_t index(int32_t id) { return static_cast<size_t>(id); }

/// Rotary frequencies that go by the length of the text make a row depend on the others.
bool turns_by_length(const Step& step) {
  if (step.op != Op::kRotary) return false;
  const auto kind = std::get<RotaryParams>(step.params).rotary.scaling.kind;
  return kind == RotaryScalingKind::kDynamic || kind == RotaryScalingKind::kLongRope;
}

bool mixes_tokens(const Step& step) {
  const auto* custom = std::get_if<CustomParams>(&step.params);
  return step.op == Op::kAttention || turns_by_length(step) ||
         (custom != nullptr && custom->apply_sequence != nullptr);
}

/// A row may depend on those behind it.
bool looks_ahead(const Step& step) {
  const auto* attention = std::get_if<AttentionParams>(&step.params);
  if (attention == nullptr) return mixes_tokens(step);
  return attention->mask == MaskKind::kFull || attention->cross || attention->diagonal > 0 ||
         attention->hidden_score.has_value();
}

class Cutter {
 public:
  Cutter(Program program, const WeightSources& weights, const DumpGround& ground, ValueId target,
         const ChangeOfInputs& change)
      : program_(std::move(program)),
        weights_(weights),
        ground_(ground),
        target_(target),
        change_(change) {
    names_.resize(program_.values.size());
    for (const NamedValue& named : program_.sites) {
      names_[index(named.value)].push_back(named.site);
    }
    needed_.resize(program_.values.size());
    needed_[index(target)] = true;
  }

  CutProgram cut() {
    std::vector<Step> kept;
    for (auto step = program_.steps.rbegin(); step != program_.steps.rend(); ++step) {
      if (!makes_needed(*step)) continue;
      // Of an attention whose scores or pattern are wanted nothing but the whole step will do.
      const bool inside = step->scores == target_ || step->pattern == target_;
      if (!inside && is_given(step->output)) {
        kept.push_back(look_up(*step, given(step->output)));
      } else if (zeros_.contains(step->output) && !computed_.contains(step->output)) {
        kept.push_back(look_up(*step, nullptr));
      } else {
        keep(*step);
        kept.push_back(std::move(*step));
      }
    }
    program_.steps.assign(std::make_move_iterator(kept.rbegin()),
                          std::make_move_iterator(kept.rend()));
    finish();
    return {.program = std::move(program_),
            .sources = std::move(sources_),
            .patched = std::move(patched_),
            .read = sites(std::move(read_)),
            .computed = sites(std::move(computed_)),
            .row_wise = row_wise_,
            .causal = causal_,
            .reads_tokens = reads_tokens_};
  }

 private:
  /// The first site of each, the target not among them.
  std::vector<SiteId> sites(std::set<ValueId> values) const {
    std::vector<SiteId> result;
    for (const NamedValue& named : original_sites_) {
      if (values.erase(named.value) > 0 && named.value != target_) result.push_back(named.site);
    }
    return result;
  }

  /// Where the dump has several of a value's names, what comes later reads the last.
  const AlignedValue* given(ValueId value) const {
    const std::vector<SiteId>& names = names_[index(value)];
    for (auto site = names.rbegin(); site != names.rend(); ++site) {
      if (const AlignedValue* found = ground_.given(*site)) return found;
    }
    return nullptr;
  }

  bool is_given(ValueId value) const {
    const AlignedValue* found = value == target_ ? nullptr : given(value);
    const Value& own = program_.value(value);
    return found != nullptr && own.width > 0 &&
           static_cast<int64_t>(found->data.size()) ==
               own.width * ground_.row_count(own.rows == Rows::kEncoder);
  }

  bool makes_needed(const Step& step) const {
    const auto wanted = [&](ValueId id) { return id != kNoId && needed_[index(id)]; };
    return wanted(step.output) || wanted(step.scores) || wanted(step.pattern);
  }

  void need(ValueId value) {
    needed_[index(value)] = true;
    zeros_.erase(value);
    needed_for_real_.insert(value);
  }

  /// The step has to be there, but what it is fed with does not matter.
  void need_rows_alone(ValueId value) {
    if (needed_for_real_.contains(value)) return;
    needed_[index(value)] = true;
    zeros_.insert(value);
  }

  /// A table in place of the step.
  Step look_up(const Step& step, const AlignedValue* value) {
    Value& made = program_.values[index(step.output)];
    const bool encoder = made.rows == Rows::kEncoder;
    const int64_t rows = ground_.row_count(encoder);
    WeightSource source;
    if (value != nullptr) {
      source.tensor = TensorView(DType::kF64, {rows, made.width}, value->data.data());
      if (const ChangeOfValue change = change_ ? change_(*value) : nullptr) {
        auto changed = std::make_shared<Tensor>(DType::kF64, Shape{rows, made.width});
        for (size_t i = 0; i < value->data.size(); ++i) {
          changed->data<double>()[i] = change(value->data[i], i);
        }
        source.tensor = changed->view();
        source.keep_alive = changed;
      }
      read_.insert(step.output);
    } else {
      auto zeros = std::make_shared<Tensor>(DType::kF64, Shape{1, made.width});
      source.tensor = zeros->view();
      source.keep_alive = zeros;
      source.row_order.assign(static_cast<size_t>(rows), 0);
    }
    return table_step(step, "rows of value " + std::to_string(step.output), std::move(source),
                      made.width, encoder);
  }

  Step table_step(const Step& step, std::string weight, WeightSource source, int64_t width,
                  bool encoder) {
    const auto id = static_cast<WeightId>(program_.weights.size());
    program_.weights.push_back({weight, {ground_.row_count(encoder), width}, WeightKind::kTable});
    sources_.insert_or_assign(std::move(weight), std::move(source));
    Step table{.op = Op::kEmbedTokens, .output = step.output, .weights = {id}};
    table.params = EmbedParams{};
    table.layer = step.layer;
    table.inputs = {tokens(encoder)};
    return table;
  }

  /// The value that numbers the rows; one for each stack.
  ValueId tokens(bool encoder) {
    ValueId& id = tokens_[encoder ? 1 : 0];
    if (id == kNoId) {
      id = static_cast<ValueId>(program_.values.size());
      Value value{.dims = {{'B', -1}, {'T', -1}}};
      value.rows = encoder ? Rows::kEncoder : Rows::kMain;
      program_.values.push_back(value);
      names_.emplace_back();
      needed_.push_back(false);
    }
    return id;
  }

  void keep(Step& step) {
    computed_.insert(step.output);
    row_wise_ = row_wise_ && !mixes_tokens(step);
    causal_ = causal_ && !looks_ahead(step);
    switch (step.op) {
      case Op::kAttention:
        return keep_attention(step);
      case Op::kEmbedTokens:
        return gather(step);
      case Op::kSelectRows:  // every row is wanted here
        step.op = Op::kScale;
        step.params = ScaleParams{};
        break;
      case Op::kInput:
      case Op::kTokens:
      case Op::kEmbedPositions:
      case Op::kSinusoid:
      case Op::kEmbedTypes:
      case Op::kAdd:
      case Op::kScale:
      case Op::kSoftCap:
      case Op::kNorm:
      case Op::kLinear:
      case Op::kRotary:
      case Op::kActivation:
      case Op::kMultiply:
      case Op::kCustom:
        break;
    }
    for (ValueId input : step.inputs) need(input);
  }

  void keep_attention(const Step& step) {
    const auto known = [&](ValueId id) {
      return id != kNoId && id != target_ && given(id) != nullptr;
    };
    const bool mixes = needed_[index(step.output)];
    computed_.erase(step.output);
    if (mixes) computed_.insert(step.output);
    const bool by_pattern = mixes && known(step.pattern);
    const bool by_scores = !by_pattern && target_ != step.scores && known(step.scores);
    if (by_pattern) patch(step.pattern);
    if (by_scores) patch(step.scores);
    if (!by_pattern && !by_scores && step.scores != kNoId) computed_.insert(step.scores);
    if (mixes && !by_pattern && step.pattern != kNoId) computed_.insert(step.pattern);
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const bool matters = i < 2 ? !by_pattern && !by_scores : mixes;
      matters ? need(step.inputs[i]) : need_rows_alone(step.inputs[i]);
    }
  }

  void patch(ValueId value) {
    read_.insert(value);
    patched_.emplace(to_string(names_[index(value)].front()), given(value));
  }

  /// Rows of the token table, by the number of the row.
  void gather(Step& step) {
    reads_tokens_ = true;
    const bool encoder = program_.value(step.output).rows == Rows::kEncoder;
    const WeightInfo info = program_.weight(step.weights[0]);
    const auto found = weights_.find(info.name);
    if (found == weights_.end()) throw internal_error("no source of " + info.name);
    WeightSource rows = found->second;
    std::vector<int64_t> order;
    for (const SequenceInput& input : ground_.inputs()) {
      for (int64_t id : encoder ? input.encoder_tokens : input.tokens) {
        order.push_back(rows.row_order.empty() ? id : rows.row_order[static_cast<size_t>(id)]);
      }
    }
    rows.row_order = std::move(order);
    step = table_step(step, "rows of " + info.name, std::move(rows), info.shape[1], encoder);
  }

  void finish() {
    std::vector<Step> first;
    for (ValueId id : tokens_) {
      if (id != kNoId) first.push_back({.op = Op::kTokens, .output = id});
    }
    program_.steps.insert(program_.steps.begin(), std::make_move_iterator(first.begin()),
                          std::make_move_iterator(first.end()));
    for (Value& value : program_.values) {
      value.producer = kNoId;
      if (value.rows == Rows::kHead) value.rows = Rows::kMain;
    }
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      Step& step = program_.steps[s];
      step.cached_keys = step.cached_values = kNoId;
      for (ValueId made : {step.output, step.scores, step.pattern}) {
        if (made != kNoId) program_.values[index(made)].producer = static_cast<StepId>(s);
      }
    }
    program_.input = kNoId;
    program_.output = program_.values[index(target_)].width > 0
                          ? target_
                          : program_.step(program_.value(target_).producer).output;
    program_.spec.vocab_size = std::max(ground_.row_count(false), ground_.row_count(true));
    original_sites_ = std::move(program_.sites);
    program_.sites.clear();
    for (const NamedValue& named : original_sites_) {
      if (named.value == target_ || computed_.contains(named.value) ||
          patched_.contains(to_string(named.site))) {
        program_.sites.push_back(named);
      }
    }
    drop_unread_weights(program_);
    for (const WeightInfo& info : program_.weights) {
      if (sources_.contains(info.name)) continue;
      const auto found = weights_.find(info.name);
      if (found != weights_.end()) sources_.emplace(info.name, found->second);
    }
  }

  Program program_;
  const WeightSources& weights_;
  const DumpGround& ground_;
  ValueId target_;
  const ChangeOfInputs& change_;
  std::vector<std::vector<SiteId>> names_;
  std::vector<NamedValue> original_sites_;
  std::vector<bool> needed_;
  std::set<ValueId> needed_for_real_, zeros_, computed_, read_;
  std::array<ValueId, 2> tokens_{kNoId, kNoId};
  std::map<std::string, const AlignedValue*> patched_;
  WeightSources sources_;
  bool row_wise_ = true;
  bool causal_ = true;
  bool reads_tokens_ = false;
};

}  // namespace

CutProgram cut_back(Program program, const WeightSources& weights, const DumpGround& ground,
                    ValueId target, const ChangeOfInputs& change) {
  return Cutter(std::move(program), weights, ground, target, change).cut();
}

}  // namespace mainstem
