#include "diagnose/error_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace mainstem {
namespace {

/// A share of the error that an explanation may leave, squared.
constexpr double kLeft = 1e-4;

/// The rows and columns that are compared, as one list of pairs.
struct Elements {
  const AlignedValue& value;
  const Compared& compared;
  std::span<const double> made;
  const RowLayout& layout = compared.layout();

  template <typename Visit>
  void each(Visit visit) const {
    for (int64_t row = 0; row < layout.rows; ++row) {
      if (!compared.row(row)) continue;
      const auto [begin, end] = compared.columns(row);
      for (int64_t c = begin; c < end; ++c) {
        const auto at = static_cast<size_t>(row * layout.width + c);
        if (!value.known.empty() && value.known[at] == 0) continue;
        visit(row, c, value.data[at], made[at]);
      }
    }
  }
};

std::optional<std::string> not_finite(const Elements& rows) {
  int64_t nans = 0;
  int64_t infs = 0;
  int64_t all = 0;
  rows.each([&](int64_t, int64_t, double y, double f) {
    ++all;
    nans += std::isnan(y) && std::isfinite(f) ? 1 : 0;
    infs += std::isinf(y) && std::isfinite(f) ? 1 : 0;
  });
  if (nans + infs == 0) return {};
  return fmt::format("{} of {} values are {}", nans + infs, all,
                     infs == 0   ? "NaN"
                     : nans == 0 ? "infinite"
                                 : "NaN or infinite");
}

/// Sums for fitting y = a f + b.
struct Line {
  double n = 0, y = 0, f = 0, yf = 0, ff = 0, yy = 0, error = 0;
  void add(double mine, double made) {
    n += 1;
    y += mine;
    f += made;
    yf += mine * made;
    ff += made * made;
    yy += mine * mine;
    error += (mine - made) * (mine - made);
  }
  double factor() const { return ff > 0 ? yf / ff : 1; }
  double left_by_factor() const { return ff > 0 ? std::max(0.0, yy - yf * yf / ff) : yy; }
  double offset() const { return n > 0 ? (y - f) / n : 0; }
  double left_by_offset() const { return std::max(0.0, error - n * offset() * offset()); }
};

/// Those of the groups that miss by more than round-off.
std::vector<size_t> wrong_of(const std::vector<Line>& lines, double noise) {
  std::vector<size_t> result;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (line.n > 0 && line.error > 64 * noise * noise * line.ff && line.error > 0) {
      result.push_back(i);
    }
  }
  return result;
}

std::string list_of(const std::vector<size_t>& which) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(which.size(), 8); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", which[i]);
  }
  return which.size() > 8 ? text + ", …" : text;
}

/// "head 3 alone, where all is 0", "heads 0, 2 alone"
std::string alone(const std::string& what, const std::vector<Line>& lines,
                  const std::vector<size_t>& which) {
  const bool zero =
      std::all_of(which.begin(), which.end(), [&](size_t i) { return lines[i].yy == 0; });
  return fmt::format("{}{} {} alone{}", what, which.size() == 1 ? "" : "s", list_of(which),
                     zero ? ", where all is 0" : "");
}

/// One factor or offset for each group of elements.
template <typename Group>
std::optional<std::string> by_group(const Elements& rows, size_t groups, const std::string& what,
                                    double noise, Group group) {
  std::vector<Line> lines(groups);
  rows.each([&](int64_t row, int64_t c, double y, double f) { lines[group(row, c)].add(y, f); });
  double error = 0;
  double by_factor = 0;
  double by_offset = 0;
  double size = 0;
  for (const Line& line : lines) {
    if (line.n < 2) continue;  // anything fits one number
    error += line.error;
    by_factor += line.left_by_factor();
    by_offset += line.left_by_offset();
    size += line.ff;
  }
  if (error == 0) return {};
  const double floor = noise * noise * size;
  const std::vector<size_t> wrong = wrong_of(lines, noise);
  const bool some = !wrong.empty() && wrong.size() < groups;
  std::string each = some ? alone(what, lines, wrong) : "each " + what;
  if (by_factor <= std::max(kLeft * error, floor)) {
    double least = std::numeric_limits<double>::infinity();
    double most = -least;
    for (size_t i = 0; i < groups; ++i) {
      const bool counts = lines[i].n >= 2 && (!some || std::ranges::binary_search(wrong, i));
      if (!counts) continue;
      least = std::min(least, lines[i].factor());
      most = std::max(most, lines[i].factor());
    }
    if (groups == 1) return fmt::format("one factor over all of it: {:.6g}", most);
    if (some && least == 0 && most == 0) return each;
    const std::string text = fmt::format("one factor for {}: {:.4g}", each, least);
    return some && wrong.size() == 1 ? text : text + fmt::format(" to {:.4g}", most);
  }
  if (by_offset <= std::max(kLeft * error, floor)) {
    return groups == 1 ? fmt::format("one constant is added: {:.6g}", lines[0].offset())
                       : fmt::format("one constant is added for {}", each);
  }
  return {};
}

/// Some values are 0, and all others right but for one factor.
struct Dropped {
  double share = 0;   ///< of the values that are 0
  double chance = 0;  ///< the standard deviation of such a share
  double factor = 1;

  static std::optional<Dropped> in(const Elements& rows, double noise) {
    Line kept;
    double zeros = 0;
    double error = 0;
    rows.each([&](int64_t, int64_t, double y, double f) {
      error += (y - f) * (y - f);
      if (f == 0) return;
      if (y == 0) {
        zeros += 1;
      } else {
        kept.add(y, f);
      }
    });
    if (zeros == 0 || kept.n < 8) return {};
    if (kept.left_by_factor() > std::max(kLeft * error, noise * noise * kept.ff)) return {};
    Dropped result{.share = zeros / (zeros + kept.n)};
    result.chance = std::sqrt(result.share * (1 - result.share) / (zeros + kept.n));
    if (std::fabs(kept.factor() - 1) > noise) result.factor = kept.factor();
    return result;
  }

  std::string text() const {
    const std::string zero = fmt::format("{:.1f} % of the values are 0", 100 * share);
    if (factor == 1) return zero + ", the others are right";
    std::string text = fmt::format("{}, the others {:.4g} times as large", zero, factor);
    // The factor is 1 / (1 - p), and p the share but for chance.
    const double rate = 1 - 1 / factor;
    if (factor > 1 && std::fabs(rate - share) <= 5 * chance) {
      text += fmt::format(": dropout of rate {:.2g}", rate);
    }
    return text;
  }
};

/// The same numbers in other places of each row, or of the whole.
std::optional<std::string> permuted(const Elements& rows, double noise) {
  const auto same = [&](std::vector<double>& a, std::vector<double>& b) {
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    double off = 0;
    double size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      off += (a[i] - b[i]) * (a[i] - b[i]);
      size += b[i] * b[i];
    }
    return off <= 16 * noise * noise * size;
  };
  std::vector<double> mine;
  std::vector<double> made;
  bool in_rows = true;
  const RowLayout& layout = rows.layout;
  std::vector<std::vector<double>> row_mine(
      static_cast<size_t>(layout.rows / std::max<int64_t>(1, layout.heads)));
  auto row_made = row_mine;
  rows.each([&](int64_t row, int64_t, double y, double f) {
    const auto token = static_cast<size_t>(layout.token_row(row));
    row_mine[token].push_back(y);
    row_made[token].push_back(f);
    mine.push_back(y);
    made.push_back(f);
  });
  if (mine.size() < 8) return {};
  for (size_t i = 0; i < row_mine.size() && in_rows; ++i) in_rows = same(row_mine[i], row_made[i]);
  if (in_rows) return "the same values in other places of each token's row";
  if (same(mine, made)) return "the same values in other places";
  return {};
}

/// Where the error lies: heads, channels, tokens.
std::string where(const Elements& rows, double noise) {
  const RowLayout& layout = rows.layout;
  const auto tokens = static_cast<size_t>(layout.rows / layout.heads);
  std::vector<Line> by_token(tokens);
  std::vector<Line> by_head(static_cast<size_t>(layout.heads));
  std::vector<Line> by_channel(static_cast<size_t>(layout.width));
  rows.each([&](int64_t row, int64_t c, double y, double f) {
    by_token[static_cast<size_t>(layout.token_row(row))].add(y, f);
    by_head[static_cast<size_t>(layout.head(row))].add(y, f);
    by_channel[static_cast<size_t>(c)].add(y, f);
  });
  std::vector<std::string> parts;
  const auto heads = wrong_of(by_head, noise);
  if (layout.heads > 1 && !heads.empty() && heads.size() < by_head.size()) {
    parts.push_back(alone("head", by_head, heads));
  }
  const auto channels = wrong_of(by_channel, noise);
  if (!channels.empty() && channels.size() * 2 <= by_channel.size()) {
    parts.push_back(alone(layout.square ? "key" : "channel", by_channel, channels));
  }
  const auto at = wrong_of(by_token, noise);
  if (!at.empty() && at.size() < tokens) {
    const bool tail = at.back() + 1 == tokens && at.size() == tokens - at.front();
    parts.push_back(tail ? fmt::format("from token {} on", at.front())
                         : alone("token", by_token, at));
  } else if (tokens >= 8) {
    // Does it grow with the position?
    const auto mean = [&](size_t begin, size_t end) {
      double error = 0;
      double size = 0;
      for (size_t t = begin; t < end; ++t) {
        error += by_token[t].error;
        size += by_token[t].ff;
      }
      return size > 0 ? std::sqrt(error / size) : 0;
    };
    if (mean(0, tokens / 4) * 3 < mean(tokens - tokens / 4, tokens)) {
      parts.emplace_back("it grows with the position");
    }
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

/// Empty: no simple shape.
std::string shape_of(const Elements& rows, double envelope) {
  if (auto text = not_finite(rows)) return *text;
  const double noise = 4 * envelope;
  const RowLayout& layout = rows.layout;
  const auto one = [](int64_t, int64_t) { return size_t{0}; };
  const auto by_row = [](int64_t row, int64_t) { return static_cast<size_t>(row); };
  const auto by_channel = [](int64_t, int64_t c) { return static_cast<size_t>(c); };
  const auto by_head = [&](int64_t row, int64_t) { return static_cast<size_t>(layout.head(row)); };
  if (auto text = by_group(rows, 1, "", noise, one)) return *text;
  if (layout.heads > 1) {
    if (auto text = by_group(rows, static_cast<size_t>(layout.heads), "head", noise, by_head)) {
      return *text;
    }
  }
  const std::optional<Dropped> dropped = Dropped::in(rows, noise);
  if (dropped && dropped->factor != 1) return dropped->text();
  if (auto text = permuted(rows, noise)) return *text;
  if (layout.width > 2) {
    if (auto text = by_group(rows, static_cast<size_t>(layout.rows), "row", noise, by_row)) {
      return *text;
    }
  }
  if (layout.rows > 2) {
    if (auto text =
            by_group(rows, static_cast<size_t>(layout.width), "channel", noise, by_channel)) {
      return *text;
    }
  }
  const std::string place = where(rows, noise);
  return place.empty() && dropped ? dropped->text() : place;
}

/// The dump's values that the step adds up to this one.
std::vector<const AlignedValue*> summands(const Judge& judge, const AlignedValue& sum) {
  const Program& program = judge.right();
  const auto id = program.find_value(sum.site);
  if (!id) return {};
  const Step& step = program.step(program.value(*id).producer);
  std::vector<const AlignedValue*> result;
  if (step.op != Op::kAdd) return result;
  for (const AlignedValue& each : judge.aligned().values) {
    const auto input = program.find_value(each.site);
    const bool is_input = input && std::ranges::count(step.inputs, *input) > 0;
    if (is_input && each.complete() && each.data.size() == sum.data.size()) result.push_back(&each);
  }
  return result;
}

}  // namespace

std::string error_shape(const Judge& judge, const AlignedValue& value, std::span<const double> made,
                        double envelope) {
  if (made.size() != value.data.size()) return "values of another size";
  const Compared& compared = judge.compared(value);
  if (auto text = shape_of({value, compared, made}, envelope); !text.empty()) return text;
  for (const AlignedValue* stream : summands(judge, value)) {
    AlignedValue added = value;
    std::vector<double> right(made.begin(), made.end());
    double size = 0;
    double size_of_sum = 0;
    for (size_t e = 0; e < right.size(); ++e) {
      size_of_sum += right[e] * right[e];
      added.data[e] -= stream->data[e];
      right[e] -= stream->data[e];
      size += right[e] * right[e];
    }
    if (!(size > 0) || !std::isfinite(size)) continue;
    const double share = std::sqrt(size_of_sum / size);
    const std::string text = shape_of({added, compared, right}, envelope * share);
    if (!text.empty()) return "in what is added to the stream: " + text;
  }
  return "no simple shape: all rows and channels differ";
}

}  // namespace mainstem
