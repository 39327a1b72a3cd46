#include "diagnose/error_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
  double least = 0;
  double most = 0;
  bool any = false;
  for (const Line& line : lines) {
    if (line.n < 2) continue;  // anything fits one number
    error += line.error;
    by_factor += line.left_by_factor();
    by_offset += line.left_by_offset();
    size += line.ff;
    least = any ? std::min(least, line.factor()) : line.factor();
    most = any ? std::max(most, line.factor()) : line.factor();
    any = true;
  }
  if (!any || error == 0) return {};
  const double floor = noise * noise * size;
  if (by_factor <= std::max(kLeft * error, floor)) {
    return groups == 1 ? fmt::format("one factor over all of it: {:.6g}", most)
                       : fmt::format("one factor for each {}: {:.4g} to {:.4g}", what, least, most);
  }
  if (by_offset <= std::max(kLeft * error, floor)) {
    return groups == 1 ? fmt::format("one constant is added: {:.6g}", lines[0].offset())
                       : fmt::format("one constant is added for each {}", what);
  }
  return {};
}

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
  const auto wrong = [&](const std::vector<Line>& lines) {
    std::vector<size_t> result;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].n > 0 && lines[i].error > 64 * noise * noise * lines[i].ff &&
          lines[i].error > 0) {
        result.push_back(i);
      }
    }
    return result;
  };
  const auto zero = [](const std::vector<Line>& lines, const std::vector<size_t>& which) {
    return std::all_of(which.begin(), which.end(), [&](size_t i) { return lines[i].yy == 0; });
  };
  const auto list = [](const std::vector<size_t>& which) {
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(which.size(), 8); ++i) {
      text += fmt::format("{}{}", i == 0 ? "" : ", ", which[i]);
    }
    return which.size() > 8 ? text + ", …" : text;
  };
  std::vector<std::string> parts;
  const auto heads = wrong(by_head);
  if (layout.heads > 1 && !heads.empty() && heads.size() < by_head.size()) {
    parts.push_back(fmt::format("{} {} alone{}", heads.size() == 1 ? "head" : "heads", list(heads),
                                zero(by_head, heads) ? ", where all is 0" : ""));
  }
  const auto channels = wrong(by_channel);
  if (!channels.empty() && channels.size() * 2 <= by_channel.size()) {
    parts.push_back(fmt::format("{} {} alone{}", layout.square ? "key" : "channel", list(channels),
                                zero(by_channel, channels) ? ", where all is 0" : ""));
  }
  const auto at = wrong(by_token);
  if (!at.empty() && at.size() < tokens) {
    const bool tail = at.back() + 1 == tokens && at.size() == tokens - at.front();
    parts.push_back(tail ? fmt::format("from token {} on", at.front())
                         : fmt::format("tokens {} alone", list(at)));
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
  double zeros = 0;
  double all = 0;
  rows.each([&](int64_t, int64_t, double y, double f) {
    if (f == 0) return;
    all += 1;
    zeros += y == 0 ? 1 : 0;
  });
  if (parts.empty() && zeros > 0 && zeros < all) {
    parts.push_back(fmt::format("{:.1f} % of the values are 0", 100 * zeros / all));
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

}  // namespace

std::string error_shape(const AlignedValue& value, const Compared& compared,
                        std::span<const double> made, double envelope) {
  if (made.size() != value.data.size()) return "values of another size";
  const Elements rows{value, compared, made};
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
  return place.empty() ? "no simple shape: all rows and channels differ" : place;
}

}  // namespace mainstem
