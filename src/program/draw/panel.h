#pragma once

#include <string>
#include <utility>
#include <vector>

#include "program/draw/layout.h"

namespace mainstem::draw {

enum class Side : uint8_t { kRight, kLeft };

/// A branch with its sizes and, once it is placed, the corners of its rows and columns.
struct PlacedBranch {
  Branch branch;
  Side side = Side::kRight;
  std::vector<int> column_x, column_width;
  std::vector<int> row_y, row_height;
  std::vector<bool> row_joins;  ///< names and shapes of the row's steps stand in one line
  bool entry_at_side = false, exit_at_side = false;
  int leave_y = 0;

  const Grid& grid() const { return branch.grid; }
  int bottom() const { return row_y.back() + row_height.back(); }
  int width() const { return column_x.back() + column_width.back() - column_x.front(); }
  Rect area(const Cell& cell) const;
  bool overlaps(const PlacedBranch& other) const;
};

/// Places one block: the stem, and each branch beside the part of it that it bridges.
class PanelBuilder {
 public:
  PanelBuilder(const Titled& block, const Metrics& metrics) : block_(block), metrics_(metrics) {}
  Panel build();

 private:
  const Node& node(int n) const { return block_.graph.nodes[static_cast<size_t>(n)]; }
  int stem_size() const { return static_cast<int>(block_.graph.stem.size()); }
  const Node& stem_node(int position) const {
    return node(block_.graph.stem[static_cast<size_t>(position)]);
  }
  int text_width(const std::string& text, TextStyle style) const {
    return metrics_.text_width(text, style);
  }
  int centre_x(const Rect& area) const { return area.x + (area.width - metrics_.unit) / 2; }
  int centre_y(const Rect& area) const { return area.y + (area.height - metrics_.unit) / 2; }

  // The text of a step.
  using Line = std::pair<std::string, TextStyle>;
  /// What fits a box of `width`.
  const std::string& title(const Node& node, int width) const {
    const bool fits = text_width(node.title, TextStyle::kTitle) <= width - 2 * metrics_.pad_x;
    return fits || !metrics_.short_titles ? node.title : node.short_title;
  }
  std::string shape(const Node& node) const { return shape_text(node.dims, metrics_.numbers); }
  std::vector<std::string> name_lines(const Node& node, int width) const;
  std::string joined(const Node& node) const { return node.names() + "  " + shape(node); }
  bool can_join(const Node& node, int width) const;
  std::vector<std::vector<Line>> lines_of(const Node& node, int width, bool joins) const;
  int least_width(const Node& node) const;
  int box_height(const Node& node, int width, bool joins) const;
  void add_box(const Node& node, const Rect& area, bool joins);
  int add_label(const Node& node, int y);

  // Sizes.
  void choose_sides();
  void size_columns(PlacedBranch& placed, int total) const;
  void size_rows(PlacedBranch& placed) const;
  void find_ends(PlacedBranch& placed) const;
  void place_columns();

  // Places, from the top down.
  std::vector<std::string> heading_words() const;
  int add_heading();
  void walk_stem(int y);
  void start_branches(int position, int y);
  int sum_centre(int position, int y) const;
  int add_sum(int position, int y);

  // Lines of a branch that is placed.
  void draw_branch(const PlacedBranch& placed, const Rect& sum);
  void draw_entries(const PlacedBranch& placed);
  void draw_link(const PlacedBranch& placed, const Cell& from, const Cell& to);
  void draw_exits(const PlacedBranch& placed, const Rect& sum);

  const Titled& block_;
  const Metrics& metrics_;
  std::vector<PlacedBranch> branches_;
  Rect gutter_ = {};  ///< labels of the stem's values; only x and width
  int stem_x_ = 0;
  Panel panel_;
};

}  // namespace mainstem::draw
