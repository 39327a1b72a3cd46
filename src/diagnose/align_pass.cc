#include "diagnose/align_pass.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "diagnose/align_program.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

/// An alternative must fit this many times better than what the name says.
constexpr double kMuchBetter = 4;

}  // namespace

AlignPass::AlignPass(const Model& model, const Dump& dump, const DiffOptions& options,
                     const std::vector<Source>& sources, const RunInputs& inputs,
                     ArithmeticType type)
    : model_(model),
      program_(model.program()),
      dump_(dump),
      options_(options),
      sources_(sources),
      inputs_(inputs),
      tolerance_(tolerance_of(type)) {}

void AlignPass::run(const Freedom& freedom) {
  freedom_ = &freedom;
  candidates_.clear();
  chosen_.clear();
  others_.clear();
  taken_.clear();
  open_.clear();
  notes_.clear();
  for (size_t s = 0; s < sources_.size(); ++s) {
    const auto& targets = sources_[s].part.targets;
    for (size_t t = 0; t < targets.size(); ++t) {
      if (freedom.targets[s] && *freedom.targets[s] != t) continue;
      candidates_[targets[t].value].push_back({s, t});
    }
  }
  // What a name says first comes first, what it says outright before what is undone, and what came
  // out of a module before what went into another.
  for (auto& [value, list] : candidates_) {
    const auto rank = [&](const Candidate& each) {
      const Source& source = sources_[each.source];
      return std::tuple(each.target, source.part.targets[0].convention != Convention::kNone,
                        is_module_input(source.tensor->name), each.source);
    };
    std::sort(list.begin(), list.end(), [&](const Candidate& one, const Candidate& other) {
      return rank(one) < rank(other);
    });
  }
  std::vector<ValueId> wanted;
  std::vector<SiteId> sites;
  std::set<ValueId> seen;
  for (const NamedValue& named : program_.sites) {
    if (!candidates_.contains(named.value) || !seen.insert(named.value).second) continue;
    wanted.push_back(named.value);
    sites.push_back(named.site);
  }
  std::vector<SequenceInput> own = inputs_.sequences;
  Program cut = cut_behind(program_, wanted);
  if (const auto stream = stream_before_layers(own)) cut = cut_before(cut, *stream);
  auto bound = std::make_shared<BoundProgram>(std::move(cut), model_.weights());
  Session session(std::move(bound), {.compute = Compute::kF64,
                                     .threads = options_.threads,
                                     .sites = std::move(sites),
                                     .cancel = options_.cancel});
  for (SequenceInput& input : own) input.sequence = session.add_sequence();
  session.forward_all(own, {}, [&](const TraceEvent& event, void* data) {
    visit(event, static_cast<double*>(data));
  });
  for (size_t s = 0; s < sources_.size(); ++s) {
    if (!taken_.contains(s)) open_.insert(s);
  }
}

/// Where only some blocks are asked for and the dump has what they read, nothing before them is
/// computed: the stream becomes the input of the pass.
std::optional<ValueId> AlignPass::stream_before_layers(std::vector<SequenceInput>& inputs) const {
  if (!options_.layers || options_.layers->first == 0 || program_.spec.encoder) return {};
  const auto stream = program_.find_value({Site::kResidPre, options_.layers->first, Stack::kOnly});
  const auto found = stream ? candidates_.find(*stream) : candidates_.end();
  if (found == candidates_.end()) return {};
  const Source& source = sources_[found->second.front().source];
  const bool plain = source.part.targets.size() == 1 && source.part.columns.empty();
  const RunSizes sizes = inputs_.sizes(program_, *stream);
  const Shape shape = shape_of(program_.value(*stream), sizes);
  const std::vector<Layout> ways = layouts(program_.value(*stream), sizes, source.tensor->shape, 0);
  if (!plain || source.tensor->printed || ways.size() != 1) return {};
  const Numbers numbers = in_value_order(read_numbers(dump_, *source.tensor), ways[0], shape, 1);
  if (!numbers.known.empty()) return {};
  const auto each = static_cast<std::ptrdiff_t>(numbers.data.size() / inputs.size());
  for (size_t b = 0; b < inputs.size(); ++b) {
    const auto begin = numbers.data.begin() + static_cast<std::ptrdiff_t>(b) * each;
    inputs[b].input.assign(begin, begin + each);
    inputs[b].tokens.clear();
  }
  return stream;
}

void AlignPass::visit(const TraceEvent& event, double* data) {
  const Place place(program_, inputs_, event.site, event.value.shape(),
                    {data, static_cast<size_t>(event.value.count())});
  std::optional<Chosen> chosen = choose(place);
  if (!chosen) return;
  taken_.insert(chosen->source);
  // What comes later reads the last of a value's names.
  Chosen* last = &*chosen;
  const auto [begin, end] = others_.equal_range(place.value);
  for (auto other = begin; other != end; ++other) {
    if (order_of(other->second.site) > order_of(last->site)) last = &other->second;
  }
  finish(place, *chosen, data);
  if (last != &*chosen) finish(place, *last, data);
  chosen_.emplace(place.value, std::move(*chosen));
}

int AlignPass::order_of(const SiteId& site) const {
  const auto named = std::find_if(program_.sites.begin(), program_.sites.end(),
                                  [&](const NamedValue& each) { return each.site == site; });
  return static_cast<int>(named - program_.sites.begin());
}

/// Two names of one value that hold different numbers are two findings.
bool AlignPass::keep_other(const Place& place, const Chosen& best, Chosen& found) {
  const auto is_named = [](const Chosen& each) { return each.site.site != Site::kTokens; };
  if (!is_named(best) || !is_named(found) || best.site == found.site) return false;
  if (best.convention != Convention::kNone || found.convention != Convention::kNone) return false;
  if (best.numbers.data.size() != found.numbers.data.size()) return false;
  double off = 0;
  double size = 0;
  for (size_t i = 0; i < best.numbers.data.size(); ++i) {
    const bool known = (best.numbers.known.empty() || best.numbers.known[i] != 0) &&
                       (found.numbers.known.empty() || found.numbers.known[i] != 0);
    const bool hidden = !place.hidden.empty() && place.hidden[i] != 0;
    if (!known || hidden) continue;
    const double one = best.numbers.data[i];
    const double other = found.numbers.data[i];
    if (one == other || (std::isnan(one) && std::isnan(other))) {
      if (std::isfinite(one)) size += one * one;
      continue;
    }
    // One overflowed, or became NaN, and the other did not.
    if (!std::isfinite(one) || !std::isfinite(other)) return true;
    off += (one - other) * (one - other);
    size += one * one;
  }
  return std::sqrt(off) > tolerance_ / 16 * std::sqrt(size);
}

Chosen AlignPass::read(const Place& place, const Candidate& candidate) const {
  const Source& source = sources_[candidate.source];
  Numbers theirs = read_numbers(dump_, *source.tensor);
  const RunSizes sizes = inputs_.sizes(program_, place.value);
  const Value& value = program_.value(place.value);
  const bool fused = !source.part.columns.empty();
  const std::vector<Layout> ways =
      fused ? fused_layouts(sizes, source.part.width, source.tensor->shape)
            : layouts(value, sizes, source.tensor->shape, heads_of(program_, place.value));
  Chosen best{.source = candidate.source,
              .target = candidate.target,
              .convention = target(candidate).convention,
              .site = target(candidate).site};
  best.distance = INFINITY;
  bool first = true;
  const auto consider = [&](const Layout& layout) {
    Numbers ours;
    if (fused) {
      const Shape whole{sizes.batch, sizes.tokens, source.part.width};
      ours = columns_of(in_value_order(theirs, layout, whole, 1), source.part.width,
                        source.part.columns);
    } else {
      const bool last = &layout == &ways.back() && layout.first_row == 0;
      ours =
          in_value_order(last ? std::move(theirs) : theirs, layout, place.shape, place.token_axis);
    }
    ours = undo(best.convention, std::move(ours), program_, model_.weights(), place.value,
                place.shape, place.reference);
    const double off = place.distance(ours, place.per_row_constant);
    if (!first && !(off * kMuchBetter < best.distance)) return;
    first = false;
    best.distance = off;
    best.numbers = std::move(ours);
  };
  for (const Layout& layout : ways) {
    // Copies of heads say themselves in which order they are.
    if (layout.repeats > 1 && &layout != &ways.back() && repeats_differ(theirs, layout)) continue;
    consider(layout);
    if (best.distance <= tolerance_ || layout.first_row == 0) continue;
    // Not the last tokens, then: some others.
    for (int64_t row = layout.first_row - 1; row >= 0 && best.distance > tolerance_; --row) {
      Layout moved = layout;
      moved.first_row = row;
      consider(moved);
    }
  }
  best.close = best.distance <= tolerance_;
  return best;
}

std::optional<Chosen> AlignPass::convention_of(const Place& place, const Chosen& plain) const {
  std::optional<Chosen> best;
  if (plain.convention != Convention::kNone) return best;
  for (const Convention convention : conventions_of(program_, place.value)) {
    const ConventionGroup group = group_of(convention, place.site, place.value);
    if (freedom_->conventions && !freedom_->conventions->contains(group)) continue;
    Chosen other = plain;
    other.convention = convention;
    other.tried = true;
    other.numbers = undo(convention, std::move(other.numbers), program_, model_.weights(),
                         place.value, place.shape, place.reference);
    other.distance = place.distance(
        other.numbers, convention == Convention::kRowConstant || place.per_row_constant);
    other.close = other.distance <= tolerance_;
    const double bar = best ? best->distance : plain.distance / kMuchBetter;
    if (other.close && other.distance < bar) best = std::move(other);
  }
  return best;
}

/// The reading of one tensor as this value: the first that its name allows, or another that fits
/// where the first does not.
Chosen AlignPass::read_source(const Place& place, size_t source) const {
  std::optional<Chosen> best;
  for (const Candidate& candidate : candidates_.at(place.value)) {
    if (candidate.source != source) continue;
    Chosen found = read(place, candidate);
    if (best && (best->close || !found.close || found.distance * kMuchBetter >= best->distance)) {
      continue;
    }
    best = std::move(found);
  }
  return std::move(*best);
}

std::optional<Chosen> AlignPass::choose(const Place& place) {
  std::optional<Chosen> best;
  size_t before = sources_.size();
  for (const Candidate& candidate : candidates_.at(place.value)) {
    const size_t source = candidate.source;
    if (source == before || taken_.contains(source)) continue;
    before = source;
    const auto& targets = sources_[source].part.targets;
    const bool fixed = freedom_->targets[source].has_value();
    const bool first = fixed || targets[0].value == place.value;
    const bool only = fixed || std::all_of(targets.begin(), targets.end(), [&](const Target& each) {
                        return each.value == place.value;
                      });
    Chosen found = read_source(place, source);
    if (!any_known(found.numbers)) {
      taken_.insert(source);
      continue;
    }
    if (!best) {
      // What may stand for something else is left open until it fits somewhere.
      if (!found.close && first && !only) {
        if (auto other = convention_of(place, found)) found = std::move(*other);
      }
      if (!found.close && !only) continue;
      best = std::move(found);
      taken_.insert(source);
      continue;
    }
    // A further tensor for the value is not needed, and only said where it differs.
    if (!only && !(found.close && best->close)) continue;
    taken_.insert(source);
    // A few printed elements may lie on either side of what is near.
    const bool differ = found.close != best->close && !agree(found.numbers, best->numbers);
    const bool as_usual = differ && convention_of(place, found.close ? *best : found).has_value();
    if (!as_usual && keep_other(place, *best, found)) {
      others_.emplace(place.value, std::move(found));
      continue;
    }
    if (differ && !as_usual) {
      notes_.push_back("'" + sources_[source].tensor->name + "' and '" +
                       sources_[best->source].tensor->name +
                       "' should hold one value and differ; the latter was taken");
    }
  }
  if (best && !best->close) {
    if (auto other = convention_of(place, *best)) best = std::move(other);
  }
  return best;
}

void AlignPass::finish(const Place& place, Chosen& chosen, double* data) const {
  const Value& value = program_.value(place.value);
  const Step& made = program_.step(value.producer);
  Numbers& numbers = chosen.numbers;
  const bool scores = place.value == made.scores;
  for (size_t i = 0; i < numbers.data.size(); ++i) {
    if (!numbers.known.empty() && numbers.known[i] == 0) continue;
    const bool hidden = !place.hidden.empty() && place.hidden[i] != 0;
    // What a mask or padding hides may hold anything.
    if (hidden && (scores || place.token_axis == 1)) {
      if (scores) numbers.data[i] = data[i];
      continue;
    }
    if (!numbers.errors.empty() &&
        std::abs(numbers.data[i] - data[i]) <= static_cast<double>(numbers.errors[i])) {
      continue;
    }
    data[i] = numbers.data[i];
  }
}

/// The chosen values that a value stands on: the nearest ones on every way back.
std::set<ValueId> AlignPass::grounds_of(ValueId value) const {
  std::set<ValueId> grounds, seen;
  const auto walk = [&](const auto& self, ValueId from, bool itself) -> void {
    if (!itself && chosen_.contains(from)) {
      grounds.insert(from);
      return;
    }
    if (!seen.insert(from).second) return;
    const Step& made = program_.step(program_.value(from).producer);
    const bool mix = from == made.output && made.scores != kNoId;
    if (mix && chosen_.contains(made.pattern)) {
      grounds.insert(made.pattern);
      return self(self, made.inputs[2], false);
    }
    if ((mix || from == made.pattern) && made.scores != kNoId && chosen_.contains(made.scores)) {
      grounds.insert(made.scores);
      if (mix) self(self, made.inputs[2], false);
      return;
    }
    const bool needs_values = mix || made.scores == kNoId;
    for (size_t i = 0; i < made.inputs.size(); ++i) {
      if (i == 2 && !needs_values) continue;
      self(self, made.inputs[i], false);
    }
  };
  walk(walk, value, true);
  return grounds;
}

std::set<ConventionGroup> AlignPass::unconfirmed() const {
  std::map<ConventionGroup, bool> groups;
  const auto group = [&](ValueId value, const Chosen& chosen) {
    return group_of(chosen.convention, first_site(program_, value), value);
  };
  for (const auto& [value, chosen] : chosen_) {
    if (!chosen.tried) continue;
    // Nothing stands behind logits; that they sum to the same says enough.
    bool& confirmed = groups[group(value, chosen)];
    confirmed |= chosen.convention == Convention::kRowConstant;
  }
  if (groups.empty()) return {};
  for (const auto& [value, chosen] : chosen_) {
    if (!chosen.close) continue;
    for (const ValueId ground : grounds_of(value)) {
      const Chosen& below = chosen_.at(ground);
      if (!below.tried) continue;
      const ConventionGroup theirs = group(ground, below);
      if (chosen.tried && group(value, chosen) == theirs) continue;
      groups[theirs] = true;
    }
  }
  std::set<ConventionGroup> unconfirmed;
  for (const auto& [each, confirmed] : groups) {
    if (!confirmed) unconfirmed.insert(each);
  }
  return unconfirmed;
}

}  // namespace mainstem
