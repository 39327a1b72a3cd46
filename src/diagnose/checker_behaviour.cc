// What a program does, whatever its steps are.

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/checker.h"
#include "diagnose/checker_numbers.h"
#include "mainstem/stored_tensor.h"

namespace mainstem {
namespace {

/// The kernels read weights as float32, so that is what must hold them.
std::string first_bad_weight(const std::string& name, const TensorView& tensor) {
  const auto index = first_non_finite(tensor, NumberRange::kFloat32);
  if (!index) return {};
  const int64_t row = *index / tensor.columns();
  const int64_t column = *index % tensor.columns();
  std::vector<float> values(static_cast<size_t>(tensor.columns()));
  read_row(tensor, row, values.data());
  return fmt::format("{} in {} at [{}, {}]", number_text(values[static_cast<size_t>(column)]), name,
                     row, column);
}

bool is_row_site(Site site) {
  return site != Site::kCrossScores && site != Site::kCrossPattern && site != Site::kCrossK &&
         site != Site::kCrossV;
}

}  // namespace

void Checker::check_weights() {
  std::string unread;
  std::string not_finite;
  for (const auto& [name, source] : weights_) {
    meter_.advance(1);
    if (!program_.find_weight(name)) unread += (unread.empty() ? "" : ", ") + name;
    if (not_finite.empty()) not_finite = first_bad_weight(name, source.tensor);
  }
  if (!not_finite.empty()) return report("weights", false, not_finite);
  if (unread.size() > 120) unread = unread.substr(0, 117) + "...";
  report("weights", unread.empty(),
         unread.empty()
             ? fmt::format("{} weights, all there, all read, all finite", program_.weights.size())
             : "read by no step: " + unread);
}

void Checker::check_shape() {
  std::vector<SiteId> stream;
  for (const NamedValue& named : program_.sites) {
    switch (named.site.site) {
      case Site::kResidPre:
      case Site::kAttnOut:
      case Site::kCrossResidPre:
      case Site::kCrossAttnOut:
      case Site::kResidMid:
      case Site::kMlpOut:
      case Site::kResidPost:
        stream.push_back(named.site);
        break;
      default:
        break;
    }
  }
  const SequenceInput input = make_input(length(), 1);
  std::string wrong;
  int64_t seen = 0;
  for (const TracedValue& each : trace(bound_, {&input, 1}, stream, Compute::kF32, threads_)) {
    ++seen;
    const bool encoder = each.site.stack == Stack::kEncoder;
    const StackSpec& spec = encoder ? *program_.spec.encoder : program_.spec.stack;
    const Shape expected = {1, encoder ? length() + 1 : length(), spec.width};
    if (each.value.shape() != expected && wrong.empty()) {
      wrong = fmt::format("{} has shape {}, the stream {}", to_string(each.site),
                          to_string(each.value.shape()), to_string(expected));
    }
  }
  report("shape", wrong.empty(),
         wrong.empty() ? fmt::format("{} values of the stream keep [B,T,D]", seen) : wrong);
}

bool Checker::is_causal() const {
  return std::all_of(
      program_.spec.stack.blocks.begin(), program_.spec.stack.blocks.end(),
      [](const BlockSpec& block) { return block.attention.mask != MaskKind::kFull; });
}

void Checker::check_causal() {
  if (!is_causal()) return skip("causal", "the spec lets queries see every key");
  const int64_t tokens = length();
  const SequenceInput base = make_input(tokens, 2);
  const std::vector<double> right = output_rows(base);
  const std::vector<double> right_stepped = decode_rows(base);
  double worst = 0;
  for (int64_t position : {int64_t{1}, tokens / 2, tokens - 1}) {
    if (position < 1 || position >= tokens) continue;
    SequenceInput corrupted = base;
    corrupt(corrupted, position);
    const auto before = static_cast<size_t>(position * output_width());
    const std::vector<double> whole = output_rows(corrupted);
    worst = larger(worst, distance(std::span(whole).first(before), std::span(right).first(before)));
    const std::vector<double> stepped = decode_rows(corrupted);
    worst = larger(
        worst, distance(std::span(stepped).first(before), std::span(right_stepped).first(before)));
  }
  report("causal", worst <= kFloatPassSlack,
         fmt::format("corrupting a position moves earlier outputs by {}, also through the cache",
                     to_text(worst)));
}

void Checker::check_zero_input() {
  // The stream enters block 0 as zeros.
  std::vector<SiteId> sites;
  for (const NamedValue& named : program_.sites) {
    if (named.site.site == Site::kResidPre && named.site.layer == 0) sites.push_back(named.site);
  }
  if (sites.empty()) return skip("zero_input", "no blocks");
  Session session(bound_, {.compute = Compute::kF32, .threads = threads_, .sites = sites});
  SequenceInput input = make_input(std::min<int64_t>(length(), 3), 3);
  input.sequence = session.add_sequence();
  const std::vector<double> out =
      session.forward_all({&input, 1}, {}, [](const TraceEvent& event, void* data) {
        std::fill_n(static_cast<float*>(data), event.value.count(), 0.0F);
      });
  const auto bad = std::find_if(out.begin(), out.end(), [](double v) { return !std::isfinite(v); });
  report("zero_input", bad == out.end(),
         bad == out.end() ? "an all-zero stream stays finite"
                          : fmt::format("an all-zero stream becomes {}", number_text(*bad)));
}

void Checker::check_batch() {
  const SequenceInput first = make_input(length(), 4);
  const SequenceInput second = make_input(length(), 5);
  Session session(bound_, {.compute = Compute::kF32, .threads = threads_});
  std::vector<SequenceInput> both{first, second};
  for (SequenceInput& each : both) each.sequence = session.add_sequence();
  const std::vector<double> together = session.forward_all(both);
  std::vector<double> alone = output_rows(first);
  const std::vector<double> rest = output_rows(second);
  alone.insert(alone.end(), rest.begin(), rest.end());
  const double moved = distance(together, alone);
  report("batch", moved <= kFloatPassSlack,
         fmt::format("a second sequence in the batch moves outputs by {}", to_text(moved)));
}

void Checker::check_decode() {
  if (!is_causal()) return skip("decode", "the spec lets queries see keys that come later");
  // Scaling that depends on the length turns old keys otherwise than a fresh pass would.
  const int64_t tokens = std::min<int64_t>(length(), 4);
  const SequenceInput input = make_input(tokens, 6);
  std::vector<SiteId> sites;
  for (const NamedValue& named : program_.sites) {
    switch (named.site.site) {
      case Site::kTokens:
      case Site::kScores:
      case Site::kPattern:
      case Site::kKCache:
      case Site::kVCache:
        break;
      default:
        if (named.site.stack != Stack::kEncoder && is_row_site(named.site.site)) {
          sites.push_back(named.site);
        }
    }
  }
  std::map<std::string, std::vector<double>> whole;
  std::map<std::string, std::vector<double>> stepped;
  const auto collect = [count = count_sites(sites.size())](auto& into) {
    return [&into, count](const TraceEvent& event) {
      count();
      const auto values = to_f64(event.value);
      auto& target = into[to_string(event.site)];
      target.insert(target.end(), values.begin(), values.end());
    };
  };
  // In double, so that a chaotic program is not blamed for its round-off.
  const SessionOptions options{.compute = Compute::kF64, .threads = threads_, .sites = sites};
  Session prefill(bound_, options);
  SequenceInput own = input;
  own.sequence = prefill.add_sequence();
  prefill.forward_all({&own, 1}, collect(whole));
  Session decode(bound_, options);
  const int64_t sequence = decode.add_sequence();
  for (int64_t t = 0; t < tokens; ++t) {
    SequenceInput step = one_token(input, t);
    step.sequence = sequence;
    decode.forward_all({&step, 1}, collect(stepped));
  }
  double worst = 0;
  std::string where;
  for (const SiteId& site : sites) {
    const std::string name = to_string(site);
    const double moved = distance(stepped[name], whole[name]);
    if (larger(worst, moved) == worst || std::isnan(worst)) continue;
    worst = moved;
    where = name;
  }
  report("decode", worst <= kPassSlack,
         fmt::format("step by step differs from one pass by {}{}", to_text(worst),
                     where.empty() ? "" : " at " + where));
}

void Checker::check_residual() {
  // Every sub-layer is silenced; what still arrives came along the residual connections.
  std::vector<SiteId> sites;
  SiteId last;
  for (const NamedValue& named : program_.sites) {
    switch (named.site.site) {
      case Site::kAttnOut:
      case Site::kCrossAttnOut:
      case Site::kMlpOut:
        if (named.site.stack != Stack::kEncoder) sites.push_back(named.site);
        break;
      case Site::kResidPre:
        if (named.site.layer == 0 && named.site.stack != Stack::kEncoder) {
          sites.push_back(named.site);
        }
        break;
      case Site::kResidPost:
        if (named.site.stack != Stack::kEncoder) last = named.site;
        break;
      default:
        break;
    }
  }
  if (sites.empty()) return skip("residual", "no blocks");
  sites.push_back(last);
  std::vector<double> entering;
  std::vector<double> leaving;
  Session session(bound_, {.compute = Compute::kF32, .threads = threads_, .sites = sites});
  SequenceInput input = make_input(std::min<int64_t>(length(), 3), 7);
  input.sequence = session.add_sequence();
  session.forward_all(
      {&input, 1},
      [&](const TraceEvent& event) {
        if (event.site.site == Site::kResidPre) entering = to_f64(event.value);
        if (event.site == last) leaving = to_f64(event.value);
      },
      [&](const TraceEvent& event, void* data) {
        if (event.site.site == Site::kResidPre || event.site == last) return;
        std::fill_n(static_cast<float*>(data), event.value.count(), 0.0F);
      });
  const bool post =
      std::any_of(program_.spec.stack.blocks.begin(), program_.spec.stack.blocks.end(),
                  [](const BlockSpec& block) { return block.placement == NormPlacement::kPost; });
  if (post) {
    const double size = distance(leaving, std::vector<double>(leaving.size()));
    report("residual", size > 0, "with silent sub-layers the normed stream still arrives");
    return;
  }
  const double moved = distance(leaving, entering);
  report(
      "residual", moved <= kFloatPassSlack,
      fmt::format("with silent sub-layers the stream leaves as it entered, to {}", to_text(moved)));
}

}  // namespace mainstem
