#include "program/draw/panel.h"

#include <algorithm>
#include <utility>

#include "mainstem/error.h"

namespace mainstem::draw {

Rect PlacedBranch::area(const Cell& cell) const {
  const auto row = static_cast<size_t>(cell.row);
  const int x = column_x[static_cast<size_t>(cell.first)];
  const auto last = static_cast<size_t>(cell.last);
  return {x, row_y[row], column_x[last] + column_width[last] - x, row_height[row]};
}

bool PlacedBranch::overlaps(const PlacedBranch& other) const {
  return branch.leave < other.branch.join && other.branch.leave < branch.join;
}

Panel PanelBuilder::build() {
  for (Branch& branch : make_branches(block_.graph)) {
    branches_.emplace_back().branch = std::move(branch);
  }
  choose_sides();
  place_columns();
  walk_stem(add_heading());
  return std::move(panel_);
}

/// Beside each other where two branches bridge the same part of the stem.
void PanelBuilder::choose_sides() {
  for (size_t i = 0; i < branches_.size(); ++i) {
    bool taken[2] = {false, false};
    for (size_t j = 0; j < i; ++j) {
      if (branches_[i].overlaps(branches_[j])) taken[static_cast<size_t>(branches_[j].side)] = true;
    }
    branches_[i].side = taken[0] ? Side::kLeft : Side::kRight;
    // Left of the stem the names of its values stand between the branches.
    const Branch& branch = branches_[i].branch;
    if (taken[0] && (taken[1] || branch.join != branch.leave + 1)) {
      throw internal_error("branches that cannot stand beside each other");
    }
  }
}

std::vector<std::string> PanelBuilder::name_lines(const Node& node, int width) const {
  std::string all = node.names();
  if (all.empty()) return {};
  if (text_width(all, TextStyle::kName) <= width) return {std::move(all)};
  std::vector<std::string> lines;
  for (Site site : node.sites) {
    lines.push_back((lines.empty() ? "" : "= ") + std::string(name(site)));
  }
  return lines;
}

bool PanelBuilder::can_join(const Node& node, int width) const {
  return node.sites.empty() ||
         text_width(joined(node), TextStyle::kName) <= width - 2 * metrics_.pad_x;
}

std::vector<std::vector<PanelBuilder::Line>> PanelBuilder::lines_of(const Node& node, int width,
                                                                    bool joins) const {
  std::vector<std::vector<Line>> lines{{{title(node, width), TextStyle::kTitle}}};
  if (joins && !node.sites.empty()) {
    lines.push_back({{node.names() + "  ", TextStyle::kName}, {shape(node), TextStyle::kShape}});
    return lines;
  }
  for (std::string& text : name_lines(node, width - 2 * metrics_.pad_x)) {
    lines.push_back({{std::move(text), TextStyle::kName}});
  }
  lines.push_back({{shape(node), TextStyle::kShape}});
  return lines;
}

int PanelBuilder::least_width(const Node& node) const {
  int width = std::max(text_width(title(node, 0), TextStyle::kTitle),
                       text_width(shape(node), TextStyle::kShape));
  for (const std::string& line : name_lines(node, 0)) {
    width = std::max(width, text_width(line, TextStyle::kName));
  }
  return width + 2 * metrics_.pad_x;
}

int PanelBuilder::box_height(const Node& node, int width, bool joins) const {
  return static_cast<int>(lines_of(node, width, joins).size()) * metrics_.line + 2 * metrics_.pad_y;
}

/// A box with its lines in the middle.
void PanelBuilder::add_box(const Node& node, const Rect& area, bool joins) {
  panel_.shapes.push_back({&node, false, area});
  const auto lines = lines_of(node, area.width, joins);
  int y = area.y + (area.height - static_cast<int>(lines.size()) * metrics_.line) / 2;
  for (const auto& line : lines) {
    int width = 0;
    for (const auto& [text, style] : line) width += text_width(text, style);
    int x = area.x + (area.width - width) / 2;
    for (const auto& [text, style] : line) {
      const int own = text_width(text, style);
      panel_.texts.push_back({text, style, {x, y, own, metrics_.line}, Align::kCentre});
      x += own;
    }
    y += metrics_.line;
  }
}

/// The names of a value of the stream, left of the stem; returns where they end.
int PanelBuilder::add_label(const Node& node, int y) {
  if (node.sites.empty()) return y;
  std::vector<Line> lines;
  for (std::string& text : name_lines(node, gutter_.width)) {
    lines.emplace_back(std::move(text), TextStyle::kName);
  }
  lines.emplace_back(shape(node), TextStyle::kShape);
  for (auto& [text, style] : lines) {
    panel_.texts.push_back(
        {std::move(text), style, {gutter_.x, y, gutter_.width, metrics_.line}, Align::kRight});
    y += metrics_.line;
  }
  return y;
}

/// Columns of one width, wide enough for every text; `total` (if not 0) is filled.
void PanelBuilder::size_columns(PlacedBranch& placed, int total) const {
  const int columns = placed.grid().columns;
  const int gaps = (columns - 1) * metrics_.gap_x;
  int width = 0;
  for (const Cell& cell : placed.grid().cells) {
    const int span = cell.last - cell.first + 1;
    const int least = cell.node >= 0 ? least_width(node(cell.node)) : metrics_.unit;
    width = std::max(width, (least - (span - 1) * metrics_.gap_x + span - 1) / span);
  }
  total = std::max(total, columns * width + gaps);
  placed.column_x.clear();
  placed.column_width.clear();
  for (int c = 0, x = 0; c < columns; ++c) {
    const int own = (total - gaps) / columns + (c < (total - gaps) % columns ? 1 : 0);
    placed.column_x.push_back(x);
    placed.column_width.push_back(own);
    x += own + metrics_.gap_x;
  }
}

void PanelBuilder::size_rows(PlacedBranch& placed) const {
  const auto rows = static_cast<size_t>(placed.grid().rows);
  placed.row_y.assign(rows, 0);
  placed.row_height.assign(rows, 0);
  placed.row_joins.assign(rows, true);
  for (const Cell& cell : placed.grid().cells) {
    if (cell.node >= 0 && !can_join(node(cell.node), placed.area(cell).width)) {
      placed.row_joins[static_cast<size_t>(cell.row)] = false;
    }
  }
  for (const Cell& cell : placed.grid().cells) {
    if (cell.node < 0) continue;
    const auto row = static_cast<size_t>(cell.row);
    placed.row_height[row] =
        std::max(placed.row_height[row],
                 box_height(node(cell.node), placed.area(cell).width, placed.row_joins[row]));
  }
}

/// A single cell beside the stem is joined to it by a level line.
void PanelBuilder::find_ends(PlacedBranch& placed) const {
  const auto at_side = [&](const std::vector<int>& ends) {
    if (ends.size() != 1) return false;
    const auto& cells = placed.grid().cells;
    const Cell& end = cells[static_cast<size_t>(ends[0])];
    return end.node >= 0 && std::none_of(cells.begin(), cells.end(), [&](const Cell& other) {
             const bool nearer =
                 placed.side == Side::kRight ? other.first < end.first : other.last > end.last;
             return other.row == end.row && nearer;
           });
  };
  placed.entry_at_side = at_side(placed.grid().entries);
  placed.exit_at_side = at_side(placed.grid().exits);
}

void PanelBuilder::place_columns() {
  int total[2] = {0, 0};
  for (PlacedBranch& placed : branches_) {
    size_columns(placed, 0);
    int& widest = total[static_cast<size_t>(placed.side)];
    widest = std::max(widest, placed.width());
  }
  int half_box = metrics_.circle / 2;
  for (int p = 0; p < stem_size(); ++p) {
    const Node& node = stem_node(p);
    if (node.kind == NodeKind::kNorm) half_box = std::max(half_box, (least_width(node) + 1) / 2);
    if (node.kind != NodeKind::kInput && node.kind != NodeKind::kAdd) continue;
    for (const std::string& line : name_lines(node, 0)) {
      gutter_.width = std::max(gutter_.width, text_width(line, TextStyle::kName));
    }
    gutter_.width = std::max(gutter_.width, text_width(shape(node), TextStyle::kShape));
  }
  const int left = total[static_cast<size_t>(Side::kLeft)];
  stem_x_ = std::max(
      {gutter_.width + metrics_.gap_x, half_box, left > 0 ? left + metrics_.lane + half_box : 0});
  gutter_.x = stem_x_ - metrics_.gap_x - gutter_.width;
  const int right_x = stem_x_ + metrics_.unit + half_box + metrics_.lane;
  for (PlacedBranch& placed : branches_) {
    size_columns(placed, total[static_cast<size_t>(placed.side)]);
    const int begin =
        placed.side == Side::kRight ? right_x : stem_x_ - half_box - metrics_.lane - left;
    for (int& x : placed.column_x) x += begin;
    size_rows(placed);
    find_ends(placed);
  }
  const int right = total[static_cast<size_t>(Side::kRight)];
  panel_.area.width = right > 0 ? right_x + right : stem_x_ + metrics_.unit + half_box;
}

/// The words of the heading; one that is wider than the panel in pieces.
std::vector<std::string> PanelBuilder::heading_words() const {
  std::vector<std::string> words;
  std::string word;
  const std::string& text = block_.heading;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    const std::string character = text.substr(at, end - at);
    const bool fits = text_width(word + character, TextStyle::kHeading) <= panel_.area.width;
    if (!word.empty() && (character == " " || !fits)) words.push_back(std::exchange(word, {}));
    if (character != " ") word += character;
    at = end;
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

int PanelBuilder::add_heading() {
  panel_.heading = block_.heading;
  int y = 0;
  const std::vector<std::string> words = heading_words();
  for (std::string& line :
       wrap_items(words, " ", panel_.area.width, TextStyle::kHeading, metrics_)) {
    panel_.texts.push_back({std::move(line),
                            TextStyle::kHeading,
                            {0, y, panel_.area.width, metrics_.line},
                            Align::kLeft});
    y += metrics_.line;
  }
  return y > 0 ? y + metrics_.gap_y : y;
}

void PanelBuilder::walk_stem(int y) {
  panel_.stem = {stem_x_, y, metrics_.unit, 0};
  y = add_label(stem_node(0), y) + metrics_.gap_y;
  for (int p = 0; p + 1 < stem_size(); ++p) {
    start_branches(p, y);
    const Node& next = stem_node(p + 1);
    if (next.kind == NodeKind::kAdd) {
      y = add_sum(p + 1, y) + metrics_.gap_y;
      continue;
    }
    if (next.inputs.size() != 1) throw internal_error("a branch that ends at no sum");
    const int width = least_width(next);
    const Rect area{stem_x_ - (width - metrics_.unit) / 2, y, width,
                    box_height(next, width, false)};
    add_box(next, area, false);
    y = area.bottom() + metrics_.gap_y;
  }
  panel_.stem.height = y + metrics_.gap_y - panel_.stem.y;
  panel_.area.height = panel_.stem.bottom();
}

void PanelBuilder::start_branches(int position, int y) {
  for (PlacedBranch& placed : branches_) {
    if (placed.branch.leave != position) continue;
    int at = placed.entry_at_side ? y : y + metrics_.unit + metrics_.gap_y;
    for (size_t row = 0; row < placed.row_y.size(); ++row) {
      placed.row_y[row] = at;
      at += placed.row_height[row] + metrics_.gap_y;
    }
    placed.leave_y = placed.entry_at_side ? y + (placed.row_height[0] - metrics_.unit) / 2 : y;
  }
}

/// The height of a sum at which every branch that ends there has room.
int PanelBuilder::sum_centre(int position, int y) const {
  int centre = y + metrics_.circle / 2;
  for (const PlacedBranch& placed : branches_) {
    if (placed.branch.join != position) continue;
    const int lines = static_cast<int>(placed.grid().exits.size());
    const int own = placed.exit_at_side
                        ? placed.row_y.back() + (placed.row_height.back() - metrics_.unit) / 2
                        : placed.bottom() + metrics_.gap_y / 2 + metrics_.track * (lines - 1) / 2;
    centre = std::max(centre, own);
  }
  return centre;
}

int PanelBuilder::add_sum(int position, int y) {
  const Node& node = stem_node(position);
  const int centre = sum_centre(position, y);
  const int half = (metrics_.circle - metrics_.unit) / 2;
  const Rect sum{stem_x_ - half, centre - half, metrics_.circle, metrics_.circle};
  panel_.shapes.push_back({&node, true, sum});
  int bottom = sum.bottom(), label_y = sum.bottom();
  for (PlacedBranch& placed : branches_) {
    if (placed.branch.join != position) continue;
    if (placed.exit_at_side) {
      placed.row_y.back() = centre - (placed.row_height.back() - metrics_.unit) / 2;
    }
    draw_branch(placed, sum);
    bottom = std::max(bottom, placed.bottom());
    if (placed.side == Side::kLeft) label_y = std::max(label_y, bottom);
  }
  const int label_end = add_label(node, label_y + metrics_.pad_y);
  return std::max(bottom, label_end);
}

void PanelBuilder::draw_branch(const PlacedBranch& placed, const Rect& sum) {
  for (const Cell& cell : placed.grid().cells) {
    if (cell.node < 0) continue;
    add_box(node(cell.node), placed.area(cell), placed.row_joins[static_cast<size_t>(cell.row)]);
  }
  draw_entries(placed);
  for (const auto& [from, to] : placed.grid().links) {
    draw_link(placed, placed.grid().cells[static_cast<size_t>(from)],
              placed.grid().cells[static_cast<size_t>(to)]);
  }
  draw_exits(placed, sum);
}

void PanelBuilder::draw_entries(const PlacedBranch& placed) {
  const bool right = placed.side == Side::kRight;
  const int start = right ? stem_x_ + metrics_.unit : stem_x_;
  for (int entry : placed.grid().entries) {
    const Cell& cell = placed.grid().cells[static_cast<size_t>(entry)];
    const Rect area = placed.area(cell);
    Path path{.points = {{start, placed.leave_y}}, .arrow = cell.node >= 0, .from_stem = true};
    if (placed.entry_at_side) {
      path.points.push_back({right ? area.x : area.right(), placed.leave_y});
    } else {
      path.points.push_back({centre_x(area), placed.leave_y});
      path.points.push_back({centre_x(area), area.y});
    }
    panel_.paths.push_back(std::move(path));
  }
}

/// Straight down where the two share a column, else with a step sideways between the rows.
void PanelBuilder::draw_link(const PlacedBranch& placed, const Cell& from, const Cell& to) {
  const Rect a = placed.area(from), b = placed.area(to);
  const int left = std::max(a.x, b.x), right = std::min(a.right(), b.right());
  const bool a_line = from.node < 0, b_line = to.node < 0;
  int begin = a_line ? centre_x(a) : centre_x(b), end = b_line ? centre_x(b) : centre_x(a);
  if (!a_line && !b_line && left < right) {
    begin = end = centre_x({left, 0, right - left, 0});
  } else if (!b_line && begin >= b.x && begin < b.right()) {
    end = begin;
  } else if (!a_line && end >= a.x && end < a.right()) {
    begin = end;
  } else {
    begin = centre_x(a);
    end = centre_x(b);
  }
  Path path{.points = {{begin, a_line ? a.y : a.bottom()}}, .arrow = !b_line};
  if (begin != end) {
    const int middle = b.y - (metrics_.gap_y + 1) / 2;
    path.points.push_back({begin, middle});
    path.points.push_back({end, middle});
  }
  path.points.push_back({end, b.y});
  panel_.paths.push_back(std::move(path));
}

void PanelBuilder::draw_exits(const PlacedBranch& placed, const Rect& sum) {
  const bool right = placed.side == Side::kRight;
  const int end = right ? sum.right() : sum.x;
  std::vector<Cell> exits;
  for (int exit : placed.grid().exits) {
    exits.push_back(placed.grid().cells[static_cast<size_t>(exit)]);
  }
  // The nearest to the stem on the upper line, so that none crosses another.
  std::sort(exits.begin(), exits.end(), [&](const Cell& a, const Cell& b) {
    return right ? a.first < b.first : a.first > b.first;
  });
  int y = centre_y(sum) - metrics_.track * (static_cast<int>(exits.size()) - 1) / 2;
  for (const Cell& cell : exits) {
    const Rect area = placed.area(cell);
    Path path{.points = {}, .arrow = true};
    if (placed.exit_at_side) {
      path.points = {{right ? area.x : area.right(), y}};
    } else {
      path.points = {{centre_x(area), cell.node >= 0 ? area.bottom() : area.y},
                     {centre_x(area), y}};
    }
    path.points.push_back({end, y});
    panel_.paths.push_back(std::move(path));
    y += metrics_.track;
  }
}

}  // namespace mainstem::draw
