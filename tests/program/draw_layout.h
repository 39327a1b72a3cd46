#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "program/draw/render.h"

namespace mainstem::draw {

inline bool overlap(const Rect& a, const Rect& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}
inline bool contains(const Rect& outer, const Rect& inner) {
  return inner.x >= outer.x && inner.y >= outer.y && inner.right() <= outer.right() &&
         inner.bottom() <= outer.bottom();
}

/// What a leg of a line covers: cells in text, nothing of the edges it touches in a drawing.
inline Rect leg_area(Point a, Point b, int unit) {
  const int x = std::min(a.x, b.x), y = std::min(a.y, b.y);
  return {x, y, std::max(std::max(a.x, b.x) - x, unit), std::max(std::max(a.y, b.y) - y, unit)};
}
/// With lines that have no width an edge is no overlap, the inside is.
inline bool crosses(Point a, Point b, const Rect& area, int unit) {
  const Rect leg = leg_area(a, b, unit);
  if (unit > 0) return overlap(leg, area);
  return leg.x < area.right() && leg.right() > area.x && leg.y < area.bottom() &&
         leg.bottom() > area.y;
}

/// Expects that nothing of a layout overlaps, leaves its place or ends in the wrong one.
class LayoutChecker {
 public:
  LayoutChecker(const Scene& scene, const Layout& layout, const Metrics& metrics)
      : scene_(scene), layout_(layout), metrics_(metrics) {}

  void check() const {
    const Rect whole{0, 0, layout_.width, layout_.height};
    for (size_t p = 0; p < layout_.panels.size(); ++p) {
      const Panel& panel = layout_.panels[p];
      EXPECT_TRUE(contains(whole, panel.area));
      EXPECT_TRUE(contains(panel.area, panel.stem));
      for (size_t other = p + 1; other < layout_.panels.size(); ++other) {
        EXPECT_FALSE(overlap(panel.area, layout_.panels[other].area));
      }
      check_shapes(panel);
      check_texts(panel);
      check_paths(panel);
      check_arrows(panel, scene_.blocks[p].graph);
    }
    for (const Text& text : layout_.footer) {
      EXPECT_TRUE(contains(whole, text.area)) << text.text;
      EXPECT_LE(metrics_.text_width(text.text, text.style), text.area.width) << text.text;
      for (const Panel& panel : layout_.panels) EXPECT_FALSE(overlap(text.area, panel.area));
    }
  }

 private:
  void check_shapes(const Panel& panel) const {
    Rect stem = panel.stem;
    if (metrics_.unit == 0) stem = {stem.x - 3, stem.y, 6, stem.height};
    for (size_t i = 0; i < panel.shapes.size(); ++i) {
      const Shape& shape = panel.shapes[i];
      EXPECT_TRUE(contains(panel.area, shape.area)) << shape.node->names();
      for (size_t j = i + 1; j < panel.shapes.size(); ++j) {
        EXPECT_FALSE(overlap(shape.area, panel.shapes[j].area))
            << shape.node->names() << " and " << panel.shapes[j].node->names();
      }
      if (!overlap(shape.area, stem)) continue;
      const int middle = shape.area.x + (shape.area.width - metrics_.unit) / 2;
      EXPECT_EQ(middle, panel.stem.x) << shape.node->names();
    }
  }

  void check_texts(const Panel& panel) const {
    for (size_t i = 0; i < panel.texts.size(); ++i) {
      const Text& text = panel.texts[i];
      EXPECT_TRUE(contains(panel.area, text.area)) << text.text;
      EXPECT_LE(metrics_.text_width(text.text, text.style), text.area.width) << text.text;
      EXPECT_FALSE(overlap(text.area, panel.stem) && !in_a_box(panel, text)) << text.text;
      for (const Shape& shape : panel.shapes) {
        EXPECT_TRUE(!overlap(text.area, shape.area) ||
                    (!shape.circle && contains(shape.area, text.area)))
            << text.text << " and " << shape.node->names();
      }
      for (size_t j = i + 1; j < panel.texts.size(); ++j) {
        EXPECT_FALSE(overlap(text.area, panel.texts[j].area))
            << text.text << " and " << panel.texts[j].text;
      }
    }
  }

  static bool in_a_box(const Panel& panel, const Text& text) {
    return std::any_of(panel.shapes.begin(), panel.shapes.end(),
                       [&](const Shape& shape) { return contains(shape.area, text.area); });
  }

  void check_paths(const Panel& panel) const {
    for (size_t i = 0; i < panel.paths.size(); ++i) {
      const Path& path = panel.paths[i];
      ASSERT_GE(path.points.size(), 2U);
      for (size_t leg = 0; leg + 1 < path.points.size(); ++leg) {
        const Point a = path.points[leg], b = path.points[leg + 1];
        EXPECT_TRUE(a.x == b.x || a.y == b.y);
        if (a.x == b.x && a.y == b.y) continue;
        for (const Shape& shape : panel.shapes) {
          EXPECT_FALSE(crosses(a, b, shape.area, metrics_.unit)) << shape.node->names();
        }
        for (const Text& text : panel.texts) {
          EXPECT_FALSE(crosses(a, b, text.area, metrics_.unit)) << text.text;
        }
        // Lines of different values lie on each other nowhere, apart from those that leave the
        // stem together and, in text, those that reach a sum together.
        for (size_t j = i + 1; metrics_.unit == 0 && j < panel.paths.size(); ++j) {
          const Path& other = panel.paths[j];
          if (path.from_stem && other.from_stem) continue;
          for (size_t k = 0; k + 1 < other.points.size(); ++k) {
            EXPECT_FALSE(share_a_stretch(a, b, other.points[k], other.points[k + 1]));
          }
        }
      }
    }
  }

  static bool share_a_stretch(Point a, Point b, Point c, Point d) {
    const auto shared = [](int a0, int a1, int b0, int b1) {
      return std::min(std::max(a0, a1), std::max(b0, b1)) >
             std::max(std::min(a0, a1), std::min(b0, b1));
    };
    if (a.x == b.x && c.x == d.x && a.x == c.x) return shared(a.y, b.y, c.y, d.y);
    if (a.y == b.y && c.y == d.y && a.y == c.y) return shared(a.x, b.x, c.x, d.x);
    return false;
  }

  /// An arrow for each value a step reads, apart from the one that the stem brings.
  static void check_arrows(const Panel& panel, const BlockGraph& graph) {
    const std::set<int> stem(graph.stem.begin(), graph.stem.end());
    for (const Shape& shape : panel.shapes) {
      const auto arrows = std::count_if(panel.paths.begin(), panel.paths.end(), [&](auto& path) {
        const Point end = path.points.back();
        const Rect& area = shape.area;
        const bool on_x = end.x >= area.x && end.x <= area.right();
        const bool on_y = end.y >= area.y && end.y <= area.bottom();
        return path.arrow && on_x && on_y;
      });
      const auto node = static_cast<int>(shape.node - graph.nodes.data());
      const int by_stem = stem.contains(node) ? 1 : 0;
      EXPECT_EQ(arrows, static_cast<int>(shape.node->inputs.size()) - by_stem)
          << shape.node->names();
    }
    EXPECT_EQ(panel.shapes.size(), graph.nodes.size() - 1);  // all but the input
  }

  const Scene& scene_;
  const Layout& layout_;
  const Metrics& metrics_;
};

}  // namespace mainstem::draw
