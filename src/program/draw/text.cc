#include <algorithm>
#include <array>

#include "program/draw/render.h"

namespace mainstem::draw {
namespace {

/// Directions in which a line leaves a cell.
enum Direction : uint8_t { kNorth = 1, kEast = 2, kSouth = 4, kWest = 8 };

// By the directions of a thin line, added up.
constexpr std::array<const char*, 16> kThin = {" ", "│", "─", "└", "│", "│", "┌", "├",
                                               "─", "┘", "─", "┴", "┐", "┤", "┬", "┼"};

/// The characters of a drawing, and which way the lines through each cell go.
class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width),
        height_(height),
        cells_(static_cast<size_t>(width) * static_cast<size_t>(height)),
        lines_(cells_.size(), 0) {}

  void line(int x, int y, uint8_t directions) {
    if (inside(x, y)) lines_[index(x, y)] |= directions;
  }
  void put(int x, int y, const std::string& character) {
    if (inside(x, y)) cells_[index(x, y)] = character;
  }
  bool has_line(int x, int y) const { return inside(x, y) && lines_[index(x, y)] != 0; }

  /// A character for each byte sequence that begins a character.
  void write(int x, int y, const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      size_t end = at + 1;
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
      put(x++, y, text.substr(at, end - at));
      at = end;
    }
  }

  std::string text() const {
    std::string result;
    for (int y = 0; y < height_; ++y) {
      std::string row;
      for (int x = 0; x < width_; ++x) {
        const size_t i = index(x, y);
        row += cells_[i].empty() ? kThin[lines_[i]] : cells_[i];
      }
      row.erase(row.find_last_not_of(' ') + 1);
      result += row + "\n";
    }
    return result;
  }

 private:
  bool inside(int x, int y) const { return x >= 0 && y >= 0 && x < width_ && y < height_; }
  size_t index(int x, int y) const {
    return static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x);
  }
  int width_, height_;
  std::vector<std::string> cells_;
  std::vector<uint8_t> lines_;
};

void draw_box(Canvas& canvas, const Shape& shape) {
  const Rect& area = shape.area;
  const int right = area.right() - 1, bottom = area.bottom() - 1;
  for (int x = area.x; x < right; ++x) {
    for (int y : {area.y, bottom}) {
      canvas.line(x, y, kEast);
      canvas.line(x + 1, y, kWest);
    }
  }
  for (int y = area.y; y < bottom; ++y) {
    for (int x : {area.x, right}) {
      canvas.line(x, y, kSouth);
      canvas.line(x, y + 1, kNorth);
    }
  }
  if (shape.node->differs) canvas.put(right - 1, area.y, "≠");
}

/// One leg of a path. Lines start and end on edges, so the cell before the first belongs to what
/// the line comes from, and the last one has the arrow.
void draw_leg(Canvas& canvas, Point from, Point to) {
  if (from.x == to.x) {
    for (int y = from.y; y < to.y; ++y) canvas.line(from.x, y, kNorth | kSouth);
    return;
  }
  for (int x = std::min(from.x, to.x); x < std::max(from.x, to.x); ++x) {
    canvas.line(x, from.y, kEast | kWest);
  }
}

void draw_path(Canvas& canvas, const Path& path) {
  const std::vector<Point>& points = path.points;
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    Point from = points[i], to = points[i + 1];
    const bool level = from.x != to.x;
    // A corner's own cell turns; the legs beside it stop short of it.
    const bool corner_before = i > 0, corner_after = i + 2 < points.size();
    if (level && corner_before) {
      canvas.line(from.x, from.y, to.x > from.x ? kEast : kWest);
      if (to.x > from.x) ++from.x;
    } else if (!level && corner_before) {
      canvas.line(from.x, from.y, kSouth);
      ++from.y;
    }
    if (corner_after) {
      canvas.line(to.x, to.y, level ? (to.x > from.x ? kWest : kEast) : kNorth);
      if (level && to.x < from.x) ++to.x;
    }
    draw_leg(canvas, from, to);
  }
  const Point first = points.front(), second = points[1];
  if (!path.from_stem && first.x == second.x && canvas.has_line(first.x, first.y - 1)) {
    canvas.line(first.x, first.y - 1, kSouth);
  }
  if (!path.arrow) return;
  const Point last = points.back(), before = points[points.size() - 2];
  if (last.x == before.x) {
    canvas.put(last.x, last.y - 1, "▼");
  } else if (last.x > before.x) {
    canvas.put(last.x - 1, last.y, "▶");
  } else {
    canvas.put(last.x, last.y, "◀");
  }
}

void draw_panel(Canvas& canvas, const Panel& panel) {
  const Rect& stem = panel.stem;
  for (int y = stem.y; y + 1 < stem.bottom(); ++y) canvas.put(stem.x, y, "┃");
  canvas.put(stem.x, stem.bottom() - 1, "▼");
  for (const Shape& shape : panel.shapes) {
    if (shape.circle) {
      canvas.put(shape.area.x, shape.area.y, "⊕");
      if (shape.node->differs) canvas.put(shape.area.x - 1, shape.area.y, "≠");
      continue;
    }
    if (shape.area.x <= stem.x && stem.x < shape.area.right()) {
      for (int y = shape.area.y; y < shape.area.bottom(); ++y) canvas.put(stem.x, y, "");
    }
    draw_box(canvas, shape);
  }
  for (const Path& path : panel.paths) draw_path(canvas, path);
  for (const Path& path : panel.paths) {
    if (!path.from_stem) continue;
    const bool right = path.points[1].x > path.points[0].x;
    const bool both = std::any_of(panel.paths.begin(), panel.paths.end(), [&](const Path& other) {
      return other.from_stem && other.points[0].y == path.points[0].y &&
             (other.points[1].x > other.points[0].x) != right;
    });
    canvas.put(stem.x, path.points[0].y, both ? "╂" : right ? "┠" : "┨");
  }
  for (const Text& text : panel.texts) {
    int x = text.area.x;
    const int free = text.area.width - count_characters(text.text);
    if (text.align == Align::kRight) x += free;
    if (text.align == Align::kCentre) x += free / 2;
    canvas.write(x, text.area.y, text.text);
  }
}

}  // namespace

int count_characters(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

Metrics text_metrics(int width, bool compact) {
  return {.text_width = [](const std::string& text, TextStyle) { return count_characters(text); },
          .unit = 1,
          .line = 1,
          .pad_x = compact ? 1 : 2,
          .pad_y = 1,
          .gap_x = 1,
          .gap_y = 1,
          .lane = 2,
          .circle = 1,
          .track = 0,
          .margin = 0,
          .between_panels = 3,
          .most_width = width,
          .numbers = !compact,
          .short_titles = compact};
}

std::string render_text(const Layout& layout) {
  Canvas canvas(layout.width, layout.height);
  for (const Panel& panel : layout.panels) draw_panel(canvas, panel);
  for (const Text& text : layout.footer) canvas.write(text.area.x, text.area.y, text.text);
  return canvas.text();
}

}  // namespace mainstem::draw
