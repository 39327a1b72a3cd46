#include "diagnose/replay.h"

#include <algorithm>
#include <utility>

#include "diagnose/cut_program.h"
#include "mainstem/error.h"

namespace mainstem {

Replay::Replay(const Program& program, const WeightSources& weights, const DumpGround& ground,
               const SiteId& target, ChangeOfInputs change)
    : ground_(&ground), target_(target), change_(std::move(change)) {
  const auto value = program.find_value(target);
  if (!value) throw usage_error("site", "one that the program has", to_string(target));
  encoder_ = program.value(*value).rows == Rows::kEncoder;
  CutProgram cut = cut_back(program, weights, ground, *value, change_);
  from_ = std::move(cut.read);
  if (cut.reads_tokens) {
    from_.insert(from_.begin(), {Site::kTokens, -1, encoder_ ? Stack::kEncoder : target.stack});
  }
  covers_ = std::move(cut.computed);
  row_wise_ = cut.row_wise && ground.one_sequence();
  patched_ = std::move(cut.patched);
  causal_ = cut.causal && ground.one_sequence() && patched_.empty() && !encoder_ &&
            ground.inputs()[0].left_padding == 0;
  bound_ = std::make_shared<BoundProgram>(std::move(cut.program), cut.sources);
}

std::vector<SequenceInput> Replay::inputs(std::span<const int64_t> rows) const {
  std::vector<SequenceInput> result;
  const bool has_encoder = bound_->program().spec.encoder.has_value();
  int64_t main_row = 0;
  int64_t encoder_row = 0;
  for (const SequenceInput& input : ground_->inputs()) {
    SequenceInput own = input;
    const auto number = [](std::vector<int64_t>& ids, int64_t& next) {
      for (int64_t& id : ids) id = next++;
    };
    number(own.tokens, main_row);
    if (has_encoder) number(own.encoder_tokens, encoder_row);
    result.push_back(std::move(own));
  }
  if (rows.empty()) return result;
  if (encoder_) {
    result[0].encoder_tokens.assign(rows.begin(), rows.end());
    return result;
  }
  SequenceInput some;
  const SequenceInput& all = ground_->inputs()[0];
  for (int64_t row : rows) {
    const auto at = static_cast<size_t>(row);
    some.tokens.push_back(row);
    some.positions.push_back(all.positions.empty() ? std::max<int64_t>(row - all.left_padding, 0)
                                                   : all.positions[at]);
    if (!all.token_types.empty()) some.token_types.push_back(all.token_types[at]);
  }
  if (has_encoder) some.encoder_tokens = {0};
  return {some};
}

std::vector<double> Replay::run(const Arithmetic& arithmetic, std::span<const int64_t> rows,
                                int threads, const std::atomic<bool>* cancel,
                                const std::optional<RoundedValue>& rounded) const {
  if (!rows.empty() && !row_wise_ && !causal_) {
    throw internal_error("some rows alone of a chain whose rows depend on each other");
  }
  std::vector<SiteId> sites;
  for (const NamedValue& named : bound_->program().sites) {
    if (named.site == target_ || patched_.contains(to_string(named.site)) ||
        (rounded && named.site == rounded->site)) {
      sites.push_back(named.site);
    }
  }
  Session session(bound_, {.compute = Compute::kF64,
                           .threads = threads,
                           .sites = std::move(sites),
                           .cancel = cancel,
                           .arithmetic = arithmetic});
  std::vector<SequenceInput> own = inputs(rows);
  for (SequenceInput& input : own) input.sequence = session.add_sequence();
  std::vector<double> made;
  const auto collect = [&](const TraceEvent& event) {
    if (event.site == target_) made = to_f64(event.value);
  };
  const auto patch = [&](const TraceEvent& event, void* data) {
    if (event.site == target_) return;
    auto* values = static_cast<double*>(data);
    const auto count = static_cast<size_t>(event.value.count());
    ChangeOfValue changes = rounded && event.site == rounded->site ? rounded->round : nullptr;
    if (const auto found = patched_.find(to_string(event.site)); found != patched_.end()) {
      const AlignedValue& given = *found->second;
      std::copy(given.data.begin(), given.data.end(), values);
      if (changes == nullptr && change_) changes = change_(given);
    }
    if (changes == nullptr) return;
    for (size_t i = 0; i < count; ++i) values[i] = changes(values[i], i);
  };
  session.forward_all(own, collect,
                      patched_.empty() && !rounded ? ValuePatch{} : ValuePatch{patch});
  return made;
}

void observe_whole(std::shared_ptr<const BoundProgram> bound, std::span<const SequenceInput> inputs,
                   std::vector<SiteId> sites, const Arithmetic& arithmetic, int threads,
                   const std::atomic<bool>* cancel, const TraceSink& sink) {
  Session session(std::move(bound), {.compute = Compute::kF64,
                                     .threads = threads,
                                     .sites = std::move(sites),
                                     .cancel = cancel,
                                     .arithmetic = arithmetic});
  std::vector<SequenceInput> own(inputs.begin(), inputs.end());
  for (SequenceInput& input : own) input.sequence = session.add_sequence();
  session.observe(own, sink);
}

}  // namespace mainstem
