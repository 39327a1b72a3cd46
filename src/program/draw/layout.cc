#include "program/draw/layout.h"

#include <algorithm>
#include <utility>

#include "program/draw/panel.h"

namespace mainstem::draw {
namespace {

void move(Panel& panel, int dx, int dy) {
  const auto shift = [&](Rect& rect) {
    rect.x += dx;
    rect.y += dy;
  };
  shift(panel.area);
  shift(panel.stem);
  for (Shape& shape : panel.shapes) shift(shape.area);
  for (Text& text : panel.texts) shift(text.area);
  for (Path& path : panel.paths) {
    for (Point& point : path.points) {
      point.x += dx;
      point.y += dy;
    }
  }
}

/// Stems beside each other begin at one height, however many lines the headings have.
void align_stems(std::vector<Panel>& panels) {
  int lowest = 0;
  for (const Panel& panel : panels) lowest = std::max(lowest, panel.stem.y);
  for (Panel& panel : panels) {
    const int down = lowest - panel.stem.y;
    move(panel, 0, down);
    panel.area.y -= down;
    panel.area.height += down;
    for (Text& text : panel.texts) {
      if (text.style == TextStyle::kHeading) text.area.y -= down;
    }
  }
}

}  // namespace

std::vector<std::string> wrap_items(const std::vector<std::string>& items,
                                    const std::string& separator, int width, TextStyle style,
                                    const Metrics& metrics) {
  std::vector<std::string> lines;
  for (const std::string& item : items) {
    std::string longer = lines.empty() ? item : lines.back();
    if (!lines.empty()) longer.append(separator).append(item);
    if (lines.empty() || metrics.text_width(longer, style) > width) {
      lines.push_back(item);
    } else {
      lines.back() = std::move(longer);
    }
  }
  return lines;
}

Layout lay_out(const std::vector<Titled>& blocks,
               const std::vector<std::vector<std::string>>& footer, const Metrics& metrics) {
  Layout layout;
  for (const Titled& block : blocks) {
    layout.panels.push_back(PanelBuilder(block, metrics).build());
  }
  if (metrics.most_width == 0) align_stems(layout.panels);
  int x = metrics.margin, y = metrics.margin, below = metrics.margin;
  for (Panel& panel : layout.panels) {
    const bool fits = metrics.most_width == 0 || x == metrics.margin ||
                      x + panel.area.width + metrics.margin <= metrics.most_width;
    if (!fits) {
      x = metrics.margin;
      y = below + metrics.between_panels;
    }
    move(panel, x, y);
    layout.width = std::max(layout.width, panel.area.right() + metrics.margin);
    layout.height = std::max(layout.height, panel.area.bottom() + metrics.margin);
    below = std::max(below, panel.area.bottom());
    x = panel.area.right() + metrics.between_panels;
  }
  y = below + metrics.gap_y;
  const int width = layout.width - 2 * metrics.margin;
  for (const std::vector<std::string>& paragraph : footer) {
    for (std::string& line : wrap_items(paragraph, " · ", width, TextStyle::kShape, metrics)) {
      layout.footer.push_back({std::move(line),
                               TextStyle::kShape,
                               {metrics.margin, y, width, metrics.line},
                               Align::kLeft});
      y += metrics.line;
    }
  }
  if (!footer.empty()) layout.height = y + metrics.margin;
  return layout;
}

}  // namespace mainstem::draw
