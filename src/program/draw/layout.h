#pragma once

#include <functional>
#include <string>
#include <vector>

#include "program/draw/grid.h"

// Where everything stands, in whole units: pixels or characters. A box covers [x, x + width) and
// [y, y + height); lines start and end on the edges of boxes.

namespace mainstem::draw {

enum class TextStyle : uint8_t { kHeading, kTitle, kName, kShape };

/// Sizes of what is drawn, in the units of the drawing.
struct Metrics {
  std::function<int(const std::string&, TextStyle)> text_width;
  int unit = 1;              ///< width of a line: 1 where lines fill cells, 0 where they are ideal
  int line = 1;              ///< height of a line of text
  int pad_x = 2, pad_y = 1;  ///< between a box's edge and its text
  int gap_x = 1;             ///< between boxes of a row
  int gap_y = 1;             ///< between rows; holds an arrow
  int lane = 2;              ///< between the stem and a branch
  int circle = 1;            ///< diameter of a sum
  int track = 0;             ///< between lines that reach a sum beside each other
  int margin = 0, between_panels = 2;
  int most_width = 0;   ///< panels that do not fit beside each other stand below; 0: no limit
  bool numbers = true;  ///< in shapes
  bool short_titles = false;
};

struct Rect {
  int x = 0, y = 0, width = 0, height = 0;
  int right() const { return x + width; }
  int bottom() const { return y + height; }
};

enum class Align : uint8_t { kLeft, kCentre, kRight };

/// A line of text in the area it may use.
struct Text {
  std::string text;
  TextStyle style = TextStyle::kTitle;
  Rect area;
  Align align = Align::kCentre;
};

/// A step: a box, or the circle of a sum on the stem.
struct Shape {
  const Node* node = nullptr;
  bool circle = false;
  Rect area;
};

struct Point {
  int x = 0, y = 0;
};

/// Points of a line with right angles. An arrow where it ends at a box or a sum.
struct Path {
  std::vector<Point> points;
  bool arrow = false;
  bool from_stem = false;  ///< a dot where it begins
};

/// One block.
struct Panel {
  std::string heading;
  Rect area;
  Rect stem;
  std::vector<Shape> shapes;
  std::vector<Text> texts;
  std::vector<Path> paths;
};

struct Layout {
  int width = 0, height = 0;
  std::vector<Panel> panels;
  std::vector<Text> footer;
};

struct Titled {
  std::string heading;
  BlockGraph graph;
};

/// The blocks must outlive the layout. The footer's paragraphs, lists of items, stand below them.
Layout lay_out(const std::vector<Titled>& blocks,
               const std::vector<std::vector<std::string>>& footer, const Metrics& metrics);

/// Items with the separator between them, in lines of at most `width`.
std::vector<std::string> wrap_items(const std::vector<std::string>& items,
                                    const std::string& separator, int width, TextStyle style,
                                    const Metrics& metrics);

}  // namespace mainstem::draw
