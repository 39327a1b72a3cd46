#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "io/text.h"
#include "mainstem/error.h"
#include "program/draw/render.h"

namespace mainstem::draw {
namespace {

constexpr std::array<std::pair<char, const char*>, 9> kLegend = {{{'B', "batch"},
                                                                  {'T', "query tokens"},
                                                                  {'S', "key tokens"},
                                                                  {'D', "model width"},
                                                                  {'H', "query heads"},
                                                                  {'K', "key/value heads"},
                                                                  {'E', "head width"},
                                                                  {'F', "MLP hidden width"},
                                                                  {'V', "vocabulary"}}};

/// Control characters and broken UTF-8 have no place in a drawing.
std::string clean(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t good = valid_utf8_prefix(text);
    for (char c : text.substr(0, good)) {
      result += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
    }
    text.remove_prefix(good);
    if (text.empty()) break;
    result += "\xEF\xBF\xBD";
    text.remove_prefix(1);
  }
  return result;
}

std::vector<Titled> blocks_of(const BlockView& view) {
  const ModelSpec& spec = view.program.spec;
  const auto count = [](const StackSpec& stack) { return static_cast<int>(stack.blocks.size()); };
  const int most = std::max(count(spec.stack), spec.encoder ? count(*spec.encoder) : 0);
  if (view.layer < 0 || view.layer >= most) {
    throw usage_error("layer", fmt::format("0 to {}", most - 1), std::to_string(view.layer));
  }
  const std::string title = clean(view.title);
  const auto heading = [&](const char* stack) {
    return title.empty() ? std::string(stack) : fmt::format("{}, {}", title, stack);
  };
  std::vector<Titled> blocks;
  if (!spec.encoder) return {{title, make_graph(view.program, Stack::kOnly, view.layer)}};
  if (view.layer < count(*spec.encoder)) {
    blocks.push_back({heading("encoder"), make_graph(view.program, Stack::kEncoder, view.layer)});
  }
  if (view.layer < count(spec.stack)) {
    blocks.push_back({heading("decoder"), make_graph(view.program, Stack::kDecoder, view.layer)});
  }
  return blocks;
}

/// "D model width" for each letter in a shape.
std::vector<std::string> legend(const std::vector<Titled>& blocks) {
  std::vector<std::string> items;
  for (const auto& [letter, meaning] : kLegend) {
    const bool used = std::any_of(blocks.begin(), blocks.end(), [&](const Titled& block) {
      const auto& nodes = block.graph.nodes;
      return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
        return std::any_of(node.dims.begin(), node.dims.end(),
                           [&](const Dim& dim) { return dim.letter == letter; });
      });
    });
    if (used) items.push_back(fmt::format("{} {}", letter, meaning));
  }
  return items;
}

}  // namespace

std::string sizes_text(const BlockGraph& graph) {
  std::map<char, int64_t> sizes;
  for (const Node& node : graph.nodes) {
    for (const Dim& dim : node.dims) {
      if (dim.size >= 0) sizes.emplace(dim.letter, dim.size);
    }
  }
  std::string text;
  for (const auto& [letter, _] : kLegend) {
    const auto found = sizes.find(letter);
    if (found == sizes.end()) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", letter, found->second);
  }
  return text;
}

Scene make_scene(const BlockView& view, const BlockView* against) {
  Scene scene;
  scene.blocks = blocks_of(view);
  scene.compares = against != nullptr;
  if (against != nullptr) {
    std::vector<Titled> others = blocks_of(*against);
    std::vector<BlockGraph*> a, b;
    for (Titled& block : scene.blocks) a.push_back(&block.graph);
    for (Titled& block : others) b.push_back(&block.graph);
    mark_differences(a, b);
    std::move(others.begin(), others.end(), std::back_inserter(scene.blocks));
  }
  scene.footer.push_back(legend(scene.blocks));
  if (scene.compares) scene.footer.push_back({"≠ a step that the other block does not have"});
  return scene;
}

}  // namespace mainstem::draw

namespace mainstem {
namespace {

std::string svg(const BlockView& view, const BlockView* against) {
  const draw::Scene scene = draw::make_scene(view, against);
  return render_svg(scene, lay_out(scene.blocks, scene.footer, draw::svg_metrics()));
}

std::string text(const BlockView& view, const BlockView* against, int width) {
  draw::Scene scene = draw::make_scene(view, against);
  const draw::Layout wide = lay_out(scene.blocks, scene.footer, draw::text_metrics(width, false));
  if (wide.width <= width) return render_text(wide);
  for (draw::Titled& block : scene.blocks) {
    const std::string sizes = sizes_text(block.graph);
    block.heading += (block.heading.empty() ? "" : ", ") + sizes;
  }
  return render_text(lay_out(scene.blocks, scene.footer, draw::text_metrics(width, true)));
}

}  // namespace

std::string draw_svg(const BlockView& view) { return svg(view, nullptr); }
std::string draw_svg(const BlockView& view, const BlockView& against) {
  return svg(view, &against);
}
std::string draw_text(const BlockView& view, int width) { return text(view, nullptr, width); }
std::string draw_text(const BlockView& view, const BlockView& against, int width) {
  return text(view, &against, width);
}

}  // namespace mainstem
