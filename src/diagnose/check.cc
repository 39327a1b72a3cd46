// The lesson's failure modes, checked on any program.

#include "mainstem/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "diagnose/edit.h"
#include "diagnose/local_errors.h"
#include "mainstem/error.h"
#include "mainstem/rng.h"

namespace mainstem {
namespace {

// Relative differences that the order of sums can make: one part in eps times what a pass of a
// deep model amplifies. Mistakes are orders of magnitude above.
constexpr double kDoubleSlack = 4096 * std::numeric_limits<double>::epsilon();
constexpr double kFloatSlack = 4096 * static_cast<double>(std::numeric_limits<float>::epsilon());

class Checker {
 public:
  Checker(const Program& program, const WeightSources& weights, int threads)
      : program_(program),
        weights_(weights),
        threads_(threads),
        bound_(std::make_shared<BoundProgram>(program, weights)) {}

  std::vector<CheckResult> run() {
    check_weights();
    check_shape();
    check_causal();
    check_zero_input();
    check_batch();
    check_decode();
    check_residual();
    check_norm_weights();
    compare_with_spec();
    return std::move(results_);
  }

 private:
  bool block_only() const { return program_.input != kNoId; }

  void report(const char* id, bool good, std::string detail) {
    results_.push_back(
        {id, good ? CheckStatus::kOk : CheckStatus::kFailed, std::move(detail)});
  }
  void skip(const char* id, std::string why) {
    results_.push_back({id, CheckStatus::kNotApplicable, std::move(why)});
  }

  /// Seeded tokens, or rows for a block on its own.
  SequenceInput make_input(int64_t tokens, uint64_t seed) const {
    Generator generator(seed);
    SequenceInput input;
    if (block_only()) {
      input.input.resize(static_cast<size_t>(tokens * program_.spec.stack.width));
      generator.randn(std::span<double>(input.input));
      return input;
    }
    input.tokens.resize(static_cast<size_t>(tokens));
    generator.randint(input.tokens, 0, program_.spec.vocab_size);
    if (program_.spec.encoder) {
      input.encoder_tokens.resize(static_cast<size_t>(tokens + 1));
      generator.randint(input.encoder_tokens, 0, program_.spec.vocab_size);
    }
    return input;
  }
  void corrupt(SequenceInput& input, int64_t position) const {
    if (block_only()) {
      const auto width = static_cast<size_t>(program_.spec.stack.width);
      std::fill_n(input.input.begin() + position * program_.spec.stack.width, width, 999.0);
      return;
    }
    int64_t& token = input.tokens[static_cast<size_t>(position)];
    token = (token + 1) % program_.spec.vocab_size;
  }

  int64_t length() const {
    int64_t tokens = 8;
    if (program_.spec.stack.positions == PositionKind::kLearned) {
      tokens = std::min(tokens, program_.spec.stack.position_rows -
                                    program_.spec.stack.position_offset);
    }
    return std::max<int64_t>(tokens, 1);
  }

  /// Output rows of one pass in float32: [T, width of the output].
  std::vector<double> output_rows(const SequenceInput& input) const {
    Session session(bound_, {.compute = Compute::kF32, .threads = threads_});
    SequenceInput own = input;
    own.sequence = session.add_sequence();
    return session.forward_all({&own, 1});
  }
  int64_t output_width() const { return program_.value(program_.output).width; }

  static double distance(std::span<const double> a, std::span<const double> b) {
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      norm += b[i] * b[i];
    }
    if (difference == 0) return 0;
    return norm == 0 ? INFINITY : std::sqrt(difference / norm);
  }

  void check_weights() {
    std::string unread;
    std::string not_finite;
    for (const auto& [name, source] : weights_) {
      if (!program_.find_weight(name)) unread += (unread.empty() ? "" : ", ") + name;
      if (not_finite.empty()) not_finite = first_non_finite(name, source.tensor);
    }
    if (!not_finite.empty()) return report("weights", false, not_finite);
    if (unread.size() > 120) unread = unread.substr(0, 117) + "...";
    report("weights", unread.empty(),
           unread.empty() ? fmt::format("{} weights, all there, all read, all finite",
                                        program_.weights.size())
                          : "read by no step: " + unread);
  }

  static std::string first_non_finite(const std::string& name, const TensorView& tensor) {
    std::vector<float> row(static_cast<size_t>(tensor.columns()));
    for (int64_t r = 0; r < tensor.rows(); ++r) {
      read_row(tensor, r, row.data());
      // A sum is finite only if no term is NaN or Inf; overflow is looked at again.
      float sum = 0;
      for (float value : row) sum += value * 0.0F;
      if (sum == 0) continue;
      for (size_t c = 0; c < row.size(); ++c) {
        if (!std::isfinite(row[c])) return fmt::format("{} in {} at [{}, {}]", row[c], name, r, c);
      }
    }
    return {};
  }

  void check_shape() {
    std::vector<SiteId> stream;
    for (const NamedValue& named : program_.sites) {
      switch (named.site.site) {
        case Site::kResidPre: case Site::kAttnOut: case Site::kCrossResidPre:
        case Site::kCrossAttnOut: case Site::kResidMid: case Site::kMlpOut: case Site::kResidPost:
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

  bool is_causal() const {
    return std::all_of(program_.spec.stack.blocks.begin(), program_.spec.stack.blocks.end(),
                       [](const BlockSpec& block) {
                         return block.attention.mask != MaskKind::kFull;
                       });
  }

  void check_causal() {
    if (!is_causal()) return skip("causal", "the spec lets queries see every key");
    const int64_t tokens = length();
    const SequenceInput base = make_input(tokens, 2);
    const std::vector<double> right = output_rows(base);
    double worst = 0;
    for (int64_t position : {int64_t{1}, tokens / 2, tokens - 1}) {
      if (position < 1 || position >= tokens) continue;
      SequenceInput corrupted = base;
      corrupt(corrupted, position);
      const auto before = static_cast<size_t>(position * output_width());
      const std::vector<double> whole = output_rows(corrupted);
      worst = std::max(worst, distance(std::span(whole).first(before),
                                       std::span(right).first(before)));
      const std::vector<double> stepped = decode_rows(corrupted);
      worst = std::max(worst, distance(std::span(stepped).first(before),
                                       std::span(right).first(before)));
    }
    report("causal", worst <= kFloatSlack,
           fmt::format("corrupting a position moves earlier outputs by {:.1e}, also through the "
                       "cache",
                       worst));
  }

  std::vector<double> decode_rows(const SequenceInput& input) const {
    Session session(bound_, {.compute = Compute::kF32, .threads = threads_});
    const int64_t sequence = session.add_sequence();
    std::vector<double> rows;
    const int64_t width = program_.spec.stack.width;
    const auto tokens =
        block_only() ? static_cast<int64_t>(input.input.size()) / width
                     : static_cast<int64_t>(input.tokens.size());
    for (int64_t t = 0; t < tokens; ++t) {
      SequenceInput step{.sequence = sequence};
      if (block_only()) {
        step.input.assign(input.input.begin() + t * width, input.input.begin() + (t + 1) * width);
      } else {
        step.tokens = {input.tokens[static_cast<size_t>(t)]};
        if (t == 0) step.encoder_tokens = input.encoder_tokens;
      }
      const std::vector<double> row = session.forward_all({&step, 1});
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return rows;
  }

  void check_zero_input() {
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
                            : fmt::format("an all-zero stream becomes {}", *bad));
  }

  void check_batch() {
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
    report("batch", moved <= kFloatSlack,
           fmt::format("a second sequence in the batch moves outputs by {:.1e}", moved));
  }

  void check_decode() {
    if (!is_causal()) return skip("decode", "the spec lets queries see keys that come later");
    // Scaling that depends on the length turns old keys otherwise than a fresh pass would.
    const SequenceInput input = make_input(length(), 6);
    std::vector<SiteId> sites;
    for (const NamedValue& named : program_.sites) {
      switch (named.site.site) {
        case Site::kTokens: case Site::kScores: case Site::kPattern: case Site::kKCache:
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
    const auto collect = [](auto& into) {
      return [&into](const TraceEvent& event) {
        const auto values = to_f64(event.value);
        auto& target = into[to_string(event.site)];
        target.insert(target.end(), values.begin(), values.end());
      };
    };
    const SessionOptions options{.compute = Compute::kF32, .threads = threads_, .sites = sites};
    Session prefill(bound_, options);
    SequenceInput own = input;
    own.sequence = prefill.add_sequence();
    prefill.forward_all({&own, 1}, collect(whole));
    Session decode(bound_, options);
    const int64_t sequence = decode.add_sequence();
    const int64_t width = program_.spec.stack.width;
    for (int64_t t = 0; t < length(); ++t) {
      SequenceInput step{.sequence = sequence};
      if (block_only()) {
        step.input.assign(input.input.begin() + t * width, input.input.begin() + (t + 1) * width);
      } else {
        step.tokens = {input.tokens[static_cast<size_t>(t)]};
        if (t == 0) step.encoder_tokens = input.encoder_tokens;
      }
      decode.forward_all({&step, 1}, collect(stepped));
    }
    double worst = 0;
    std::string where;
    for (const SiteId& site : sites) {
      const std::string name = to_string(site);
      const double moved = distance(stepped[name], whole[name]);
      if (!(moved <= worst)) {
        worst = moved;
        where = name;
      }
    }
    report("decode", worst <= kFloatSlack,
           fmt::format("step by step differs from one pass by {:.1e}{}", worst,
                       where.empty() ? "" : " at " + where));
  }

  static bool is_row_site(Site site) {
    return site != Site::kCrossScores && site != Site::kCrossPattern && site != Site::kCrossK &&
           site != Site::kCrossV;
  }

  void check_residual() {
    // Every sub-layer is silenced; what still arrives came along the residual connections.
    std::vector<SiteId> sites;
    SiteId last;
    for (const NamedValue& named : program_.sites) {
      switch (named.site.site) {
        case Site::kAttnOut: case Site::kCrossAttnOut: case Site::kMlpOut:
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
    const bool post = std::any_of(
        program_.spec.stack.blocks.begin(), program_.spec.stack.blocks.end(),
        [](const BlockSpec& block) { return block.placement == NormPlacement::kPost; });
    if (post) {
      const double size = distance(leaving, std::vector<double>(leaving.size()));
      report("residual", size > 0, "with silent sub-layers the normed stream still arrives");
      return;
    }
    const double moved = distance(leaving, entering);
    report("residual", moved <= kFloatSlack,
           fmt::format("with silent sub-layers the stream leaves as it entered, to {:.1e}", moved));
  }

  void check_norm_weights() {
    // All norm weights are moved at once; each norm must answer on the inputs it had before.
    WeightSources moved = weights_;
    std::vector<std::shared_ptr<Tensor>> copies;
    const auto right = rebuild(program_, program_.spec);
    std::vector<std::pair<SiteId, std::string>> norms;
    for (const Step& step : right.steps) {
      if (step.op != Op::kNorm || step.weights[0] == kNoId) continue;
      const std::string& weight = right.weight(step.weights[0]).name;
      for (const NamedValue& named : right.sites) {
        if (named.value == step.output) {
          norms.emplace_back(named.site, weight);
          break;
        }
      }
      const auto found = weights_.find(weight);
      if (found == weights_.end()) continue;
      auto values = to_f64(found->second.tensor);
      for (double& value : values) value = value * 1.5 + 0.25;
      auto copy = std::make_shared<Tensor>(
          Tensor::from_f64({static_cast<int64_t>(values.size())}, values));
      moved[weight] = {.tensor = copy->view(), .keep_alive = copy};
    }
    if (norms.empty()) return skip("norm_weights", "no norm has weights");
    const SequenceInput input = make_input(std::min<int64_t>(length(), 2), 8);
    const SiteValues before = site_values(bound_, {&input, 1}, threads_);
    const auto changed = std::make_shared<BoundProgram>(program_, moved);
    std::string silent;
    std::map<std::string, double> answer;
    for (const LocalError& error : local_errors(changed, {&input, 1}, before, threads_)) {
      answer[to_string(error.site)] = error.relative;
    }
    for (const auto& [site, weight] : norms) {
      const auto found = answer.find(to_string(site));
      if (found != answer.end() && found->second > kDoubleSlack) continue;
      silent += (silent.empty() ? "" : ", ") + weight;
    }
    if (silent.size() > 120) silent = silent.substr(0, 117) + "...";
    report("norm_weights", silent.empty(),
           silent.empty() ? fmt::format("all {} norms answer to their weights", norms.size())
                          : "without effect: " + silent);
  }

  /// Which check a site belongs to.
  const char* group_of(const SiteId& id) const {
    const bool in_block = id.layer >= 0;
    const StackSpec& stack = id.stack == Stack::kEncoder ? *program_.spec.encoder : program_.spec.stack;
    const NormPlacement placement =
        in_block ? stack.blocks[static_cast<size_t>(id.layer)].placement : NormPlacement::kPre;
    const bool out_norm =
        placement == NormPlacement::kSandwich || placement == NormPlacement::kOutputOnly;
    switch (id.site) {
      case Site::kTokens: case Site::kTokenEmbed: case Site::kPosEmbed: case Site::kTypeEmbed:
      case Site::kEmbedSum: case Site::kEmbed:
        return "embedding";
      case Site::kAttnNorm: case Site::kCrossAttnNorm: case Site::kMlpNorm: case Site::kQNorm:
      case Site::kKNorm: case Site::kFinalNorm: case Site::kHeadNorm:
        return "norms";
      case Site::kQRot: case Site::kKRot:
        return "rotary";
      case Site::kQ: case Site::kK: case Site::kV: case Site::kKCache: case Site::kVCache:
      case Site::kScores: case Site::kPattern: case Site::kAttnMix: case Site::kAttnProj:
      case Site::kCrossQ: case Site::kCrossK: case Site::kCrossV: case Site::kCrossScores:
      case Site::kCrossPattern: case Site::kCrossAttnMix: case Site::kCrossAttnProj:
        return "attention";
      case Site::kMlpGate: case Site::kMlpValue: case Site::kMlpPre: case Site::kMlpAct:
      case Site::kMlpHidden: case Site::kMlpProj:
        return "mlp";
      case Site::kAttnOut: case Site::kCrossAttnOut: case Site::kMlpOut:
        return out_norm ? "norms" : "residual_sums";
      case Site::kResidPre: case Site::kCrossResidPre: case Site::kResidMid: case Site::kResidPost:
        return placement == NormPlacement::kPost ? "norms" : "residual_sums";
      case Site::kAttnSum: case Site::kCrossAttnSum: case Site::kMlpSum:
        return "residual_sums";
      case Site::kHeadProj: case Site::kHeadAct: case Site::kHead: case Site::kLogits:
        return "head";
    }
    return "head";
  }

  void compare_with_spec() {
    const SequenceInput input = make_input(std::min<int64_t>(length(), 6), 9);
    const SiteValues values = site_values(bound_, {&input, 1}, threads_);
    const auto right =
        std::make_shared<BoundProgram>(rebuild(program_, program_.spec), weights_);
    struct Group {
      const char* id;
      int steps = 0, wrong = 0;
      std::string first;
    };
    std::vector<Group> groups = {{"embedding"}, {"norms"}, {"rotary"}, {"attention"},
                                 {"mlp"}, {"residual_sums"}, {"head"}};
    for (const LocalError& error : local_errors(right, {&input, 1}, values, threads_)) {
      const std::string id = group_of(error.site);
      Group& group =
          *std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.id == id; });
      ++group.steps;
      if (!error.missing && error.relative <= kDoubleSlack) continue;
      if (group.wrong++ > 0) continue;
      group.first = error.missing
                        ? to_string(error.site) + " is missing"
                        : fmt::format("{} differs from the spec's step by {:.1e} of its size",
                                      to_string(error.site), error.relative);
    }
    for (const Group& group : groups) {
      if (group.steps == 0) {
        skip(group.id, "no such steps");
      } else {
        report(group.id, group.wrong == 0,
               group.wrong == 0
                   ? fmt::format("{} steps do what the spec says", group.steps)
                   : fmt::format("{} of {} steps are wrong; {}", group.wrong, group.steps,
                                 group.first));
      }
    }
  }

  const Program& program_;
  const WeightSources& weights_;
  const int threads_;
  std::shared_ptr<const BoundProgram> bound_;
  std::vector<CheckResult> results_;
};

}  // namespace

std::string_view name(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk: return "ok";
    case CheckStatus::kFailed: return "failed";
    case CheckStatus::kNotApplicable: return "not applicable";
  }
  return "?";
}

std::vector<CheckResult> check(const Program& program, const WeightSources& weights, int threads) {
  return Checker(program, weights, threads).run();
}

}  // namespace mainstem
