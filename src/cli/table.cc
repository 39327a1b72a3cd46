#include "cli/table.h"

#include <algorithm>

#include "cli/console.h"
#include "cli/text.h"

namespace mainstem::cli {
namespace {

constexpr int kIndent = 2, kGap = 2, kNarrowest = 16;

void trim_right(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

}  // namespace

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::add_heading(const std::string& text) { rows_.push_back({styled(Style::kBold, text)}); }

void Table::add_line(std::string text) {
  rows_.push_back({std::string(kIndent, ' ') + std::move(text)});
}

std::string Table::text() const {
  const size_t count = columns_.size();
  std::vector<int> widths;
  for (size_t c = 0; c < count; ++c) {
    int width = text_width(columns_[c].title);
    for (const auto& row : rows_) {
      if (row.size() == count) width = std::max(width, text_width(row[c]));
    }
    widths.push_back(width);
  }
  int before_last = kIndent;
  for (size_t c = 0; c + 1 < count; ++c) before_last += widths[c] + kGap;
  widths.back() = std::min(widths.back(), std::max(output_width() - before_last, kNarrowest));

  std::string text;
  const auto add_row = [&](const std::vector<std::string>& cells, bool title) {
    const std::vector<std::string> last = wrap(cells[count - 1], widths.back());
    for (size_t line = 0; line < last.size(); ++line) {
      std::string out(kIndent, ' ');
      for (size_t c = 0; c < count; ++c) {
        const std::string& cell = c + 1 == count ? last[line] : line == 0 ? cells[c] : last[0];
        const std::string shown = c + 1 < count && line > 0 ? std::string() : cell;
        if (c > 0) out += std::string(kGap, ' ');
        out += columns_[c].align == Align::kRight ? pad_left(shown, widths[c])
                                                  : pad_right(shown, widths[c]);
      }
      trim_right(out);
      text += (title ? styled(Style::kDim, out) : out) + "\n";
    }
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  if (std::any_of(titles.begin(), titles.end(), [](const auto& t) { return !t.empty(); })) {
    add_row(titles, true);
  }
  for (const auto& row : rows_) {
    if (row.size() == 1 && count > 1) {
      text += row[0] + "\n";
    } else {
      add_row(row, false);
    }
  }
  return text;
}

}  // namespace mainstem::cli
