#pragma once

#include <string>
#include <vector>

#include "mainstem/draw.h"
#include "program/draw/layout.h"

namespace mainstem::draw {

/// Everything that is drawn, apart from where it stands.
struct Scene {
  std::vector<Titled> blocks;
  std::vector<std::vector<std::string>> footer;  ///< paragraphs of items
  bool compares = false;
};
Scene make_scene(const BlockView& view, const BlockView* against);

/// "D=576 H=9 K=3 E=64 F=1536": the sizes in the block's shapes.
std::string sizes_text(const BlockGraph& graph);

Metrics svg_metrics();
std::string render_svg(const Scene& scene, const Layout& layout);

/// For terminals; `compact`: less room around the text and no numbers in shapes.
Metrics text_metrics(int width, bool compact);
std::string render_text(const Layout& layout);

/// Characters of UTF-8 text.
int count_characters(const std::string& text);

}  // namespace mainstem::draw
