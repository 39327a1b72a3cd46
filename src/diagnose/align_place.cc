#include "diagnose/align_place.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mainstem {
namespace {

bool is_square(const Shape& shape, const Value& value) {
  return shape.size() == 4 && value.dims[3].letter == 'S';
}

bool any_padding(const RunInputs& inputs, Rows rows) {
  for (int64_t b = 0; b < inputs.batch(); ++b) {
    const int64_t tokens = rows == Rows::kEncoder ? inputs.encoder_tokens : inputs.tokens;
    // Padding is at the ends.
    if (inputs.is_padding(rows, b, 0) || inputs.is_padding(rows, b, tokens - 1)) return true;
  }
  return false;
}

/// Rows of tokens that are padding; what hangs on keys is there for all.
std::vector<uint8_t> hidden_rows(const Place& place, const Value& value, const RunInputs& inputs) {
  if (value.dims[1].letter == 'S' || !any_padding(inputs, value.rows)) return {};
  std::vector<uint8_t> hidden;
  const int64_t inner = element_count(place.shape) / (place.shape[0] * place.shape[1]);
  for (int64_t b = 0; b < place.shape[0]; ++b) {
    for (int64_t t = 0; t < place.shape[1]; ++t) {
      const uint8_t hides = inputs.is_padding(value.rows, b, t) ? 1 : 0;
      hidden.insert(hidden.end(), static_cast<size_t>(inner), hides);
    }
  }
  return hidden;
}

/// Keys that a query does not see, and queries that are padding.
std::vector<uint8_t> hidden_keys(const Place& place, const AttentionParams& params, Rows rows,
                                 const RunInputs& inputs) {
  std::vector<uint8_t> hidden;
  hidden.reserve(static_cast<size_t>(element_count(place.shape)));
  const bool of_encoder = params.cross || rows == Rows::kEncoder;
  for (int64_t b = 0; b < place.shape[0]; ++b) {
    const SequenceInput& sequence = inputs.sequences[static_cast<size_t>(b)];
    const int64_t first = of_encoder ? sequence.encoder_left_padding : sequence.left_padding;
    for (int64_t row = 0; row < place.shape[1] * place.shape[2]; ++row) {
      const int64_t t = row % place.shape[2];
      const bool is_padding = inputs.is_padding(rows, b, t);
      for (int64_t s = 0; s < place.shape[3]; ++s) {
        bool seen = s >= first && !is_padding;
        if (params.mask != MaskKind::kFull) seen &= s <= t;
        if (params.mask == MaskKind::kWindow) seen &= t - s < params.window;
        hidden.push_back(seen ? 0 : 1);
      }
    }
  }
  if (std::find(hidden.begin(), hidden.end(), 1) == hidden.end()) hidden.clear();
  return hidden;
}

double relative(double off, double size) {
  return size > 0 ? std::sqrt(off / size) : (off > 0 ? INFINITY : 0);
}

}  // namespace

Place::Place(const Program& program, const RunInputs& inputs, const SiteId& at, Shape its_shape,
             std::span<const double> made)
    : value(*program.find_value(at)), site(at), shape(std::move(its_shape)), reference(made) {
  const Value& own = program.value(value);
  const Step& step = program.step(own.producer);
  const auto* attention = std::get_if<AttentionParams>(&step.params);
  if (is_square(shape, own)) {
    token_axis = 2;
    hidden = hidden_keys(*this, *attention, program.value(step.output).rows, inputs);
  } else {
    hidden = hidden_rows(*this, own, inputs);
  }
  per_row_constant =
      attention != nullptr && value == step.scores && !attention->alibi_slopes.empty();
}

double Place::distance(const Numbers& theirs, bool but_row_constant) const {
  double off = 0;
  double size = 0;
  if (theirs.known.empty() && theirs.errors.empty() && hidden.empty() && !but_row_constant) {
    for (size_t i = 0; i < theirs.data.size(); ++i) {
      const double difference = theirs.data[i] - reference[i];
      off += difference * difference;
      size += reference[i] * reference[i];
    }
    return std::isfinite(off) && !theirs.data.empty() ? relative(off, size) : INFINITY;
  }
  const auto width = static_cast<size_t>(shape.back());
  bool any = false;
  for (size_t begin = 0; begin < theirs.data.size(); begin += width) {
    const auto counts = [&](size_t i) {
      return (theirs.known.empty() || theirs.known[i] != 0) && (hidden.empty() || hidden[i] == 0);
    };
    double their_mean = 0;
    double our_mean = 0;
    if (but_row_constant) {
      int64_t count = 0;
      for (size_t i = begin; i < begin + width; ++i) {
        if (!counts(i)) continue;
        their_mean += theirs.data[i];
        our_mean += reference[i];
        ++count;
      }
      their_mean /= static_cast<double>(std::max<int64_t>(count, 1));
      our_mean /= static_cast<double>(std::max<int64_t>(count, 1));
    }
    for (size_t i = begin; i < begin + width; ++i) {
      if (!counts(i)) continue;
      const double want = reference[i] - our_mean;
      double difference = std::abs(theirs.data[i] - their_mean - want);
      if (!theirs.errors.empty()) {
        difference = std::max(0.0, difference - static_cast<double>(theirs.errors[i]));
      }
      if (!std::isfinite(difference)) return INFINITY;
      any = true;
      off += difference * difference;
      size += want * want;
    }
  }
  return any ? relative(off, size) : INFINITY;
}

}  // namespace mainstem
