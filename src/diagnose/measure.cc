#include "diagnose/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mainstem {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

bool is_square(const Value& value) { return value.width == 0 && value.dims.size() == 4; }

/// The attention step a value of scores belongs to; nullptr for all other values.
const Step* scores_of(const Program& program, ValueId value) {
  const Step& step = program.step(program.value(value).producer);
  return step.op == Op::kAttention && step.scores == value ? &step : nullptr;
}

}  // namespace

int64_t RowLayout::token_row(int64_t row) const {
  if (!square) return row / heads;
  const int64_t batch = row / (heads * tokens);
  return batch * tokens + row % tokens;
}

int64_t RowLayout::head(int64_t row) const { return square ? row / tokens % heads : row % heads; }

std::vector<int64_t> RowLayout::index(int64_t row, int64_t column, size_t rank) const {
  const int64_t token = token_row(row);
  std::vector<int64_t> result{token / tokens};
  if (square) result.push_back(head(row));
  result.push_back(token % tokens);
  if (!square && rank > 3) result.push_back(head(row));
  result.push_back(column);
  return result;
}

RowLayout row_layout(const Program& program, const SiteId& site, const Shape& shape) {
  const Value& value = program.value(*program.find_value(site));
  RowLayout layout;
  layout.encoder = value.rows == Rows::kEncoder;
  layout.width = shape.back();
  layout.square = is_square(value);
  layout.tokens = layout.square ? shape[2] : shape[1];
  layout.heads = layout.square ? shape[1] : shape.size() > 3 ? shape[2] : 1;
  layout.rows = shape[0] * layout.tokens * layout.heads;
  return layout;
}

Compared::Compared(const Program& right, const DumpGround& ground, const AlignedValue& value)
    : layout_(row_layout(right, value.site, value.shape)) {
  padding_.resize(static_cast<size_t>(layout_.rows));
  for (int64_t row = 0; row < layout_.rows; ++row) {
    padding_[static_cast<size_t>(row)] =
        ground.is_padding(layout_.encoder, layout_.token_row(row)) ? 1 : 0;
  }
  const Step* attention = scores_of(right, *right.find_value(value.site));
  if (attention == nullptr) return;
  const auto& params = std::get<AttentionParams>(attention->params);
  const bool encoder_keys = params.cross || layout_.encoder;
  for (const SequenceInput& input : ground.inputs()) {
    const int64_t first = encoder_keys ? input.encoder_left_padding : input.left_padding;
    for (int64_t t = 0; t < layout_.tokens; ++t) {
      int64_t begin = first;
      int64_t end = layout_.width;
      if (params.mask != MaskKind::kFull) end = std::min(end, t + 1);
      if (params.mask == MaskKind::kWindow) begin = std::max(begin, t + 1 - params.window);
      ranges_.emplace_back(begin, std::max(begin, end));
    }
  }
}

std::pair<int64_t, int64_t> Compared::columns(int64_t row) const {
  if (ranges_.empty()) return {0, layout_.width};
  return ranges_[static_cast<size_t>(layout_.token_row(row))];
}

namespace {

/// Squares beyond double on both sides are a difference that cannot be measured.
double root_of_ratio(double error, double size) {
  if (error == 0) return 0;
  const double ratio = std::sqrt(error / size);
  return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
}

}  // namespace

double Difference::relative() const {
  double above = 0;
  double below = 0;
  for (size_t i = 0; i < error.size(); ++i) {
    if (std::isnan(size[i])) continue;
    above += error[i];
    below += size[i];
  }
  return root_of_ratio(above, below);
}

double Difference::relative(int64_t row) const {
  const auto at = static_cast<size_t>(row);
  return std::isnan(size[at]) ? 0 : root_of_ratio(error[at], size[at]);
}

Difference difference(const AlignedValue& shape, const Compared& compared,
                      std::span<const double> mine, std::span<const double> made,
                      std::span<const int64_t> token_rows, bool mine_is_cut) {
  const RowLayout& layout = compared.layout();
  Difference result;
  result.error.assign(static_cast<size_t>(layout.rows), kNone);
  result.size.assign(static_cast<size_t>(layout.rows), kNone);
  const bool plain =
      shape.known.empty() && shape.printed_error.empty() && !shape.up_to_row_constant;
  const auto one_row = [&](int64_t row, int64_t mine_row, int64_t made_row) {
    if (!compared.row(row)) return;
    const auto [begin, end] = compared.columns(row);
    const double* y = mine.data() + mine_row * layout.width;
    const double* f = made.data() + made_row * layout.width;
    const size_t flat = static_cast<size_t>(row * layout.width);
    const auto known = [&](int64_t c) {
      return shape.known.empty() || shape.known[flat + static_cast<size_t>(c)] != 0;
    };
    const auto sums = [&](double error, double size) {
      result.error[static_cast<size_t>(row)] = error;
      result.size[static_cast<size_t>(row)] = size;
    };
    if (plain) {
      double error = 0;
      double size = 0;
      double max = -1;
      for (int64_t c = begin; c < end; ++c) {
        const double off = std::fabs(y[c] - f[c]);
        error += off * off;
        size += f[c] * f[c];
        max = std::max(max, off);
      }
      // What is not finite is told apart below.
      if (std::isfinite(error) && std::isfinite(size) && end > begin) {
        result.compared += end - begin;
        if (max > result.max || result.max_row < 0) {
          result.max = max;
          result.max_row = row;
          result.max_column = begin;
          while (std::fabs(y[result.max_column] - f[result.max_column]) != max) ++result.max_column;
        }
        return sums(error, size);
      }
    }
    double shift = 0;
    if (shape.up_to_row_constant) {
      double count = 0;
      for (int64_t c = begin; c < end; ++c) {
        if (!known(c) || !std::isfinite(y[c]) || !std::isfinite(f[c])) continue;
        shift += y[c] - f[c];
        count += 1;
      }
      if (count > 0) shift /= count;
    }
    double error = 0;
    double size = 0;
    bool any = false;
    for (int64_t c = begin; c < end; ++c) {
      if (!known(c)) continue;
      any = true;
      if (!std::isfinite(f[c])) continue;  // of what the inputs hold
      ++result.compared;
      double off = std::fabs(y[c] - f[c] - shift);
      if (!std::isfinite(y[c])) {
        result.not_finite = true;
        off = std::numeric_limits<double>::infinity();
      }
      if (!shape.printed_error.empty()) {
        const auto slack = double{shape.printed_error[flat + static_cast<size_t>(c)]};
        off = std::max(0.0, off - slack);
      }
      error += off * off;
      size += f[c] * f[c];
      if (off > result.max || result.max_row < 0) {
        result.max = off;
        result.max_row = row;
        result.max_column = c;
      }
    }
    if (any) sums(error, size);
  };
  if (token_rows.empty()) {
    for (int64_t row = 0; row < layout.rows; ++row) one_row(row, row, row);
    return result;
  }
  // Never of squares: their rows depend on each other.
  for (size_t i = 0; i < token_rows.size(); ++i) {
    for (int64_t h = 0; h < layout.heads; ++h) {
      const int64_t row = token_rows[i] * layout.heads + h;
      const int64_t cut = static_cast<int64_t>(i) * layout.heads + h;
      one_row(row, mine_is_cut ? cut : row, cut);
    }
  }
  return result;
}

}  // namespace mainstem
