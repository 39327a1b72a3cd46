#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "program/draw/render.h"

namespace mainstem::draw {
namespace {

constexpr int kLine = 19, kMargin = 20;
constexpr int kBadge = 9;  // radius of the mark on a step that differs

struct Font {
  const char* css_class;
  int size;
};
constexpr std::array kFonts = {Font{"h", 16}, Font{"t", 14}, Font{"n", 13}, Font{"s", 13}};
const Font& font(TextStyle style) { return kFonts[static_cast<size_t>(style)]; }

// By NodeKind.
constexpr std::array<const char*, kNodeKinds> kClasses = {"in",  "port", "sum", "norm",
                                                          "lin", "pos",  "att", "act"};

// No custom properties: not every renderer of SVG knows them.
constexpr const char* kStyle = R"(
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;fill:#1f2328}
.h{font-size:16px;font-weight:700}
.t{font-size:14px;font-weight:700}
.n,.s{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px}
.n{fill:#0a3069}
.s{fill:#57606a}
.bg{fill:#ffffff}
rect,.sum{stroke-width:1.5}
.bg,.dot,.tip{stroke:none}
.port{fill:#f6f8fa;stroke:#57606a;stroke-dasharray:5 3}
.norm{fill:#fff4d9;stroke:#b67d00}
.lin{fill:#e6f0ff;stroke:#2f6fd0}
.pos{fill:#fde8f2;stroke:#bf3f86}
.att{fill:#eee8ff;stroke:#6a4bd0}
.act{fill:#e2f6e8;stroke:#2b8a4a}
.sum{fill:#ffffff;stroke:#1f2328;stroke-width:2.5}
.stem{stroke:#1f2328;stroke-width:5;fill:none}
.plus{stroke:#1f2328;stroke-width:2.5}
.line{stroke:#57606a;stroke-width:1.8;fill:none;stroke-linejoin:round}
.dot{fill:#1f2328}
.tip{fill:#57606a}
.diff{stroke:#cf222e;stroke-width:3}
.mark{fill:#cf222e}
.ne{fill:#ffffff;font-size:13px;font-weight:700}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.n{fill:#a5d6ff}
.s{fill:#9da7b1}
.bg{fill:#0d1117}
.port{fill:#161b22;stroke:#9da7b1}
.norm{fill:#33270d;stroke:#d8a233}
.lin{fill:#13233f;stroke:#6ea8ff}
.pos{fill:#3a182c;stroke:#ee8abd}
.att{fill:#251d47;stroke:#a893ff}
.act{fill:#12301c;stroke:#6bcb88}
.sum{fill:#0d1117;stroke:#e6edf3}
.stem,.plus{stroke:#e6edf3}
.line{stroke:#9da7b1}
.dot{fill:#e6edf3}
.tip{fill:#9da7b1}
.diff{stroke:#ff7b72}
.mark{fill:#ff7b72}
.ne{fill:#0d1117}
}
)";

std::string escape(const std::string& text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

/// Thousandths of the font's size that the widest of the usual fonts needs (DejaVu Sans Bold, or
/// a monospaced one; another font may have to stand in for characters beyond ASCII).
int character_width(char32_t c, TextStyle style) {
  if (c >= 0xE3) return c >= 0xF0 ? 1400 : 1050;  // first bytes of East Asian letters, of pictures
  if (c >= 0x80) return 900;
  if (style == TextStyle::kName || style == TextStyle::kShape) return 606;
  const auto is = [&](std::string_view set) {
    return set.find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (is(" .,:;!'|ijlI")) return 410;
  if (is("()[]/rstf-")) return 600;
  if (is("mwMW@%")) return 1110;
  if (c >= 'A' && c <= 'Z') return 800;
  return is("=+<>") ? 840 : 720;
}

int pixel_width(const std::string& text, TextStyle style) {
  int thousandths = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) == 0x80) continue;  // only the first byte of a character counts
    thousandths += character_width(byte, style);
  }
  return (thousandths * font(style).size + 999) / 1000;
}

/// A step in words: "attn_norm [B,T,D=64]: RMSNorm, attn_norm = …"
std::string describe(const Node& node) {
  std::string text = node.sites.empty() ? node.title : node.names();
  text += " " + shape_text(node.dims, true);
  if (node.kind == NodeKind::kInput) return text + ": the stream entering the block";
  if (!node.sites.empty() && node.kind != NodeKind::kAdd) text += ": " + node.title;
  if (node.kind != NodeKind::kPort) text += "; " + node.formula;
  return node.differs ? text + " (differs)" : text;
}

class SvgWriter {
 public:
  SvgWriter(const Scene& scene, const Layout& layout) : scene_(scene), layout_(layout) {}

  std::string write() {
    const int w = layout_.width, h = layout_.height;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
        "{1}\" role=\"img\" aria-labelledby=\"title desc\">\n",
        w, h);
    out_ += fmt::format("<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n",
                        escape(title()), escape(description()));
    out_ += fmt::format("<style>{}</style>\n", kStyle);
    out_ +=
        "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" markerWidth=\"8\" "
        "markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"tip\" "
        "d=\"M0 0L8 4L0 8Z\"/></marker></defs>\n";
    out_ += fmt::format("<rect class=\"bg\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n", w, h);
    for (const Panel& panel : layout_.panels) write_panel(panel);
    for (const Text& text : layout_.footer) write_text(text);
    return out_ + "</svg>\n";
  }

 private:
  std::string title() const {
    std::string text = scene_.compares ? "Transformer blocks compared" : "Transformer block";
    for (size_t i = 0; i < scene_.blocks.size(); ++i) {
      if (scene_.blocks[i].heading.empty()) continue;
      text += (i == 0 ? ": " : " | ") + scene_.blocks[i].heading;
    }
    return text;
  }

  std::string description() const {
    std::string text;
    for (const Titled& block : scene_.blocks) {
      if (!text.empty()) text += "\n";
      text += (block.heading.empty() ? "Steps" : block.heading) + ":";
      for (const Node& node : block.graph.nodes) text += "\n" + describe(node) + ".";
    }
    return text;
  }

  void write_panel(const Panel& panel) {
    const Rect& stem = panel.stem;
    constexpr int kTip = 14;
    out_ += fmt::format("<path class=\"stem\" d=\"M{0} {1}V{2}\"/>\n", stem.x, stem.y,
                        stem.bottom() - kTip);
    out_ += fmt::format("<path class=\"dot\" d=\"M{} {}h16l-8 {}z\"/>\n", stem.x - 8,
                        stem.bottom() - kTip, kTip);
    for (const Path& path : panel.paths) write_path(path);
    for (const Shape& shape : panel.shapes) shape.circle ? write_sum(shape) : write_box(shape);
    for (const Text& text : panel.texts) write_text(text);
  }

  void write_path(const Path& path) {
    std::string d;
    for (const Point& point : path.points) {
      d += fmt::format("{}{} {}", d.empty() ? "M" : "L", point.x, point.y);
    }
    out_ += fmt::format("<path class=\"line\" d=\"{}\"{}/>\n", d,
                        path.arrow ? " marker-end=\"url(#tip)\"" : "");
    if (path.from_stem) {
      out_ += fmt::format("<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"5\"/>\n", path.points[0].x,
                          path.points[0].y);
    }
  }

  void write_sum(const Shape& shape) {
    const int r = shape.area.width / 2, x = shape.area.x + r, y = shape.area.y + r;
    out_ +=
        fmt::format("<g><title>{}</title><circle class=\"sum{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>",
                    escape(describe(*shape.node)), shape.node->differs ? " diff" : "", x, y, r);
    const int arm = r - 5;
    out_ += fmt::format("<path class=\"plus\" d=\"M{} {}h{}M{} {}v{}\"/>", x - arm, y, 2 * arm, x,
                        y - arm, 2 * arm);
    if (shape.node->differs) write_mark(x + r, y - r);
    out_ += "</g>\n";
  }

  void write_box(const Shape& shape) {
    const Rect& area = shape.area;
    out_ += fmt::format(
        "<g><title>{}</title><rect class=\"{}{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
        "rx=\"6\"/>",
        escape(describe(*shape.node)), kClasses[static_cast<size_t>(shape.node->kind)],
        shape.node->differs ? " diff" : "", area.x, area.y, area.width, area.height);
    if (shape.node->differs) write_mark(area.right() - kBadge - 3, area.y);
    out_ += "</g>\n";
  }

  void write_mark(int x, int y) {
    out_ += fmt::format(
        "<circle class=\"mark\" cx=\"{0}\" cy=\"{1}\" r=\"{2}\"/><text class=\"ne\" x=\"{0}\" "
        "y=\"{3}\" text-anchor=\"middle\">≠</text>",
        x, y, kBadge, y + 5);
  }

  void write_text(const Text& text) {
    const Font& own = font(text.style);
    const Rect& area = text.area;
    std::string anchor;
    int x = area.x;
    if (text.align == Align::kCentre) {
      anchor = " text-anchor=\"middle\"";
      x = area.x + area.width / 2;
    } else if (text.align == Align::kRight) {
      anchor = " text-anchor=\"end\"";
      x = area.right();
    }
    // The middle of lower-case letters and figures stands about a third of the size above the
    // line.
    const int y = area.y + area.height / 2 + own.size * 35 / 100;
    const size_t begin = text.text.find_first_not_of(' ');
    const size_t end = text.text.find_last_not_of(' ');
    out_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\"{}>{}</text>\n", own.css_class, x, y,
                        anchor, escape(text.text.substr(begin, end - begin + 1)));
  }

  const Scene& scene_;
  const Layout& layout_;
  std::string out_;
};

}  // namespace

Metrics svg_metrics() {
  return {.text_width = pixel_width,
          .unit = 0,
          .line = kLine,
          .pad_x = 9,
          .pad_y = 7,
          .gap_x = 12,
          .gap_y = 22,
          .lane = 30,
          .circle = 28,
          .track = 12,
          .margin = kMargin,
          .between_panels = 36};
}

std::string render_svg(const Scene& scene, const Layout& layout) {
  return SvgWriter(scene, layout).write();
}

}  // namespace mainstem::draw
