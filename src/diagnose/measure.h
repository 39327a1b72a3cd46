#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "diagnose/align.h"
#include "diagnose/replay.h"
#include "mainstem/program.h"

namespace mainstem {

/// Where the rows of a value lie. A row is what one token, and one head of it where there are
/// heads, has: the last dimension.
struct RowLayout {
  int64_t rows = 0, width = 0;
  int64_t heads = 1;                     ///< rows of one token
  bool square = false;                   ///< [B,H,T,S]: heads before tokens
  int64_t tokens = 0;                    ///< T
  bool encoder = false;                  ///< rows are the encoder's
  int64_t token_row(int64_t row) const;  ///< b * T + t
  int64_t head(int64_t row) const;
  std::vector<int64_t> index(int64_t row, int64_t column, size_t rank) const;
};
RowLayout row_layout(const Program& program, const SiteId& site, const Shape& shape);

/// Which elements of a value are compared: not padding, not what a mask hides, not what the dump
/// does not tell.
class Compared {
 public:
  Compared(const Program& right, const DumpGround& ground, const AlignedValue& value);
  const RowLayout& layout() const { return layout_; }
  bool row(int64_t row) const { return !padding_[static_cast<size_t>(row)]; }
  /// Columns of the row that are compared, half-open.
  std::pair<int64_t, int64_t> columns(int64_t row) const;

 private:
  RowLayout layout_;
  std::vector<uint8_t> padding_;
  std::vector<std::pair<int64_t, int64_t>> ranges_;  ///< of scores, by token row; else empty
};

/// A difference, row by row: squares, so that parts can be summed.
struct Difference {
  std::vector<double> error, size;  ///< ‖y − f‖² and ‖f‖² of each row; NaN for one not compared
  double max = 0;
  int64_t max_row = -1, max_column = -1;
  bool not_finite = false;  ///< y is not finite where f is

  double relative() const;  ///< of the whole
  double relative(int64_t row) const;
};

/// `mine` (y) beside `made` (f). `token_rows`: `made` holds these token rows alone (ascending);
/// empty: all. Rows not in it are NaN.
Difference difference(const AlignedValue& shape, const Compared& compared,
                      std::span<const double> mine, std::span<const double> made,
                      std::span<const int64_t> token_rows = {}, bool mine_is_cut = false);

}  // namespace mainstem
