#include "diagnose/align_conventions.h"

#include <algorithm>
#include <cmath>

namespace mainstem {
namespace {

const Step& producer_of(const Program& program, ValueId value) {
  return program.step(program.value(value).producer);
}

const BlockSpec* block_at(const Program& program, const SiteId& site) {
  if (site.layer < 0) return nullptr;
  const StackSpec& stack =
      site.stack == Stack::kEncoder ? *program.spec.encoder : program.spec.stack;
  return &stack.blocks[static_cast<size_t>(site.layer)];
}

bool is_query(Site site) { return site == Site::kQ || site == Site::kQNorm || site == Site::kQRot; }
bool is_key(Site site) { return site == Site::kK || site == Site::kKNorm || site == Site::kKRot; }

/// A stream, or what is added to it, may be written without its mean where only LayerNorms read it.
bool can_be_centred(const Program& program, const SiteId& site) {
  switch (site.site) {
    case Site::kTokenEmbed:
    case Site::kPosEmbed:
    case Site::kEmbed:
    case Site::kResidPre:
    case Site::kAttnProj:
    case Site::kAttnOut:
    case Site::kResidMid:
    case Site::kMlpProj:
    case Site::kMlpOut:
    case Site::kResidPost:
      break;
    default:
      return false;
  }
  const StackSpec& stack =
      site.stack == Stack::kEncoder ? *program.spec.encoder : program.spec.stack;
  if (!stack.final_norm || stack.final_norm->kind != NormKind::kLayer) return false;
  return std::all_of(stack.blocks.begin(), stack.blocks.end(), [](const BlockSpec& block) {
    return block.norm.kind == NormKind::kLayer && block.placement == NormPlacement::kPre;
  });
}

std::vector<double> vector_weight(const Program& program, const WeightSources& weights,
                                  WeightId id) {
  if (id == kNoId) return {};
  const WeightSource& source = weights.at(program.weight(id).name);
  std::vector<double> stored = to_f64(source.tensor);
  if (source.row_order.empty()) return stored;
  std::vector<double> ordered;
  for (const int64_t row : source.row_order) ordered.push_back(stored[static_cast<size_t>(row)]);
  return ordered;
}

void apply_weight(Numbers& theirs, const Program& program, const WeightSources& weights,
                  const Step& norm) {
  const auto& params = std::get<NormParams>(norm.params);
  const std::vector<double> scale = vector_weight(program, weights, norm.weights[0]);
  const std::vector<double> shift = vector_weight(program, weights, norm.weights[1]);
  for (size_t i = 0; i < theirs.data.size(); ++i) {
    double factor = 1;
    if (!scale.empty()) factor = scale[i % scale.size()] + params.norm.weight_offset;
    theirs.data[i] *= factor;
    if (!theirs.errors.empty()) theirs.errors[i] *= static_cast<float>(std::abs(factor));
    if (!shift.empty()) theirs.data[i] += shift[i % shift.size()];
  }
}

void finish_scores(Numbers& theirs, const AttentionParams& params, const Shape& shape,
                   bool with_scale) {
  const auto keys = static_cast<size_t>(shape[3]);
  const auto per_head = static_cast<size_t>(shape[2]) * keys;
  for (size_t i = 0; i < theirs.data.size(); ++i) {
    double& score = theirs.data[i];
    if (with_scale) {
      score *= params.scale;
      if (!theirs.errors.empty()) theirs.errors[i] *= static_cast<float>(std::abs(params.scale));
    }
    if (params.soft_cap != 0) score = params.soft_cap * std::tanh(score / params.soft_cap);
    if (params.alibi_slopes.empty()) continue;
    const size_t head = i / per_head % static_cast<size_t>(shape[1]);
    score += params.alibi_slopes[head] * static_cast<double>(i % keys);
  }
}

/// Moves channels inside each head; `from(c)` is where theirs lies.
template <typename From>
void move_channels(Numbers& numbers, int64_t width, const From& from) {
  const auto move = [&](auto& list) {
    if (list.empty()) return;
    const auto before = list;
    const auto step = static_cast<size_t>(width);
    for (size_t head = 0; head < list.size(); head += step) {
      for (int64_t c = 0; c < width; ++c) {
        list[head + static_cast<size_t>(c)] = before[head + static_cast<size_t>(from(c))];
      }
    }
  };
  move(numbers.data);
  move(numbers.known);
  move(numbers.errors);
}

int64_t rotary_width(const Program& program, ValueId value, int64_t head_width) {
  const BlockSpec* block = block_at(program, first_site(program, value));
  return block != nullptr && block->attention.rotary ? block->attention.rotary->width : head_width;
}

/// What each row lacks is one constant per channel: v's bias, and what a bias of the norm before it
/// becomes in v. The rows lend it; the product behind, which has it, must then agree.
void add_value_bias(Numbers& theirs, std::span<const double> reference, size_t width) {
  for (size_t channel = 0; channel < width; ++channel) {
    double sum = 0;
    int64_t count = 0;
    for (size_t i = channel; i < theirs.data.size(); i += width) {
      if (!theirs.known.empty() && theirs.known[i] == 0) continue;
      sum += reference[i] - theirs.data[i];
      ++count;
    }
    if (count == 0) continue;
    for (size_t i = channel; i < theirs.data.size(); i += width) {
      theirs.data[i] += sum / static_cast<double>(count);
    }
  }
}

void add_row_means(Numbers& theirs, std::span<const double> reference, size_t width) {
  for (size_t row = 0; row + width <= reference.size(); row += width) {
    double sum = 0;
    for (size_t i = 0; i < width; ++i) sum += reference[row + i];
    for (size_t i = 0; i < width; ++i) theirs.data[row + i] += sum / static_cast<double>(width);
  }
}

}  // namespace

int64_t heads_of(const Program& program, ValueId value) {
  const SiteId site = first_site(program, value);
  const BlockSpec* block = block_at(program, site);
  if (block == nullptr) return 0;
  const bool cross = name(site.site).starts_with("cross_");
  return cross ? block->cross_attention->heads : block->attention.heads;
}

SiteId first_site(const Program& program, ValueId value) {
  for (const NamedValue& named : program.sites) {
    if (named.value == value) return named.site;
  }
  return {};
}

std::vector<Convention> conventions_of(const Program& program, ValueId value) {
  std::vector<Convention> found;
  const Step& made = producer_of(program, value);
  if (made.op == Op::kNorm && (made.weights[0] != kNoId || made.weights[1] != kNoId)) {
    found.push_back(Convention::kNormalized);
  }
  bool centred = false;
  for (const NamedValue& named : program.sites) {
    if (named.value != value) continue;
    const SiteId& site = named.site;
    const BlockSpec* block = block_at(program, site);
    const auto& stack = site.stack == Stack::kEncoder ? *program.spec.encoder : program.spec.stack;
    if (site.site == Site::kScores || site.site == Site::kCrossScores) {
      const auto& params = std::get<AttentionParams>(made.params);
      if (params.scale != 1) found.push_back(Convention::kRawScores);
      if (params.soft_cap != 0 || !params.alibi_slopes.empty()) {
        found.push_back(Convention::kUncappedScores);
      }
    }
    if (is_query(site.site) && block->attention.score_scale != 1) {
      found.push_back(Convention::kScaledQuery);
    }
    if ((is_query(site.site) || is_key(site.site)) && block->attention.rotary) {
      found.push_back(Convention::kPairedRows);
      found.push_back(Convention::kHalvedRows);
    }
    const bool value_like = site.site == Site::kV || site.site == Site::kAttnMix;
    if (value_like && (block->attention.v_bias || block->norm.bias))
      found.push_back(Convention::kNoValueBias);
    if (site.site == Site::kTokenEmbed && stack.embed_scale != 1) {
      found.push_back(Convention::kScaledEmbedding);
    }
    if (site.site == Site::kHead || site.site == Site::kLogits) {
      if (found.empty()) found.push_back(Convention::kRowConstant);
    }
    centred |= can_be_centred(program, site);
  }
  if (centred) found.push_back(Convention::kCentred);
  return found;
}

Numbers undo(Convention convention, Numbers theirs, const Program& program,
             const WeightSources& weights, ValueId value, const Shape& shape,
             std::span<const double> reference) {
  const Step& made = producer_of(program, value);
  const SiteId site = first_site(program, value);
  switch (convention) {
    case Convention::kNone:
    case Convention::kRowConstant:
      break;
    case Convention::kNormalized:
      apply_weight(theirs, program, weights, made);
      break;
    case Convention::kRawScores:
    case Convention::kUncappedScores:
      finish_scores(theirs, std::get<AttentionParams>(made.params), shape,
                    convention == Convention::kRawScores);
      break;
    case Convention::kScaledQuery:
    case Convention::kScaledEmbedding: {
      const BlockSpec* block = block_at(program, site);  // token rows lie in none
      const auto& stack =
          site.stack == Stack::kEncoder ? *program.spec.encoder : program.spec.stack;
      const double factor = block != nullptr ? block->attention.score_scale : stack.embed_scale;
      for (double& x : theirs.data) x /= factor;
      for (float& error : theirs.errors) error /= static_cast<float>(std::abs(factor));
      break;
    }
    case Convention::kPairedRows:
    case Convention::kHalvedRows: {
      const int64_t width = shape.back();
      const int64_t turned = rotary_width(program, value, width);
      const int64_t half = turned / 2;
      const bool paired = convention == Convention::kPairedRows;
      move_channels(theirs, width, [&](int64_t c) {
        if (c >= turned) return c;
        return paired ? 2 * (c % half) + c / half : c % 2 * half + c / 2;
      });
      break;
    }
    case Convention::kCentred:
      add_row_means(theirs, reference, static_cast<size_t>(shape.back()));
      break;
    case Convention::kNoValueBias:
      add_value_bias(theirs, reference, static_cast<size_t>(program.value(value).width));
      break;
  }
  return theirs;
}

ConventionGroup group_of(Convention convention, const SiteId& site, ValueId value) {
  switch (convention) {
    case Convention::kPairedRows:
    case Convention::kHalvedRows:
    case Convention::kNoValueBias:
      return {.convention = convention, .layer = site.layer, .stack = site.stack};
    case Convention::kCentred:
      return {.convention = convention, .layer = -1, .stack = site.stack};
    case Convention::kNone:
    case Convention::kNormalized:
    case Convention::kRawScores:
    case Convention::kUncappedScores:
    case Convention::kScaledQuery:
    case Convention::kScaledEmbedding:
    case Convention::kRowConstant:
      break;
  }
  return {.convention = convention, .layer = site.layer, .stack = site.stack, .value = value};
}

std::string describe(Convention convention, const std::string& where) {
  switch (convention) {
    case Convention::kNone:
      break;
    case Convention::kNormalized:
      return where + ": norm outputs without their weight (and bias); both were put in";
    case Convention::kRawScores:
      return where + ": q·k as it is; scale, soft cap and position bias were put in";
    case Convention::kUncappedScores:
      return where + ": scores before soft cap and position bias; both were put in";
    case Convention::kScaledQuery:
      return where + ": queries times the scale of the scores; it was taken out";
    case Convention::kPairedRows:
      return where + ": channels of each head in pairs (2j, 2j+1); they were put in halves";
    case Convention::kHalvedRows:
      return where + ": channels of each head in halves (j, j+r/2); they were put in pairs";
    case Convention::kCentred:
      return where + ": each row less its mean; the reference's mean was put in";
    case Convention::kNoValueBias:
      return where +
             ": without the bias of v, which the output projection has; the reference's was put in";
    case Convention::kScaledEmbedding:
      return where + ": token rows times the embedding's scale; it was taken out";
    case Convention::kRowConstant:
      return where + ": equal but for one constant in each row, which changes no prediction";
  }
  return where;
}

}  // namespace mainstem
