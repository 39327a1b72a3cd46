#pragma once

#include <string>

#include "mainstem/program.h"

namespace mainstem {

/// A block of a program, to be drawn: one panel, or one for each stack of an encoder-decoder.
struct BlockView {
  const Program& program;
  int layer = 0;           ///< the block's number
  std::string title = {};  ///< stands above it
};

/// The block's diagram as SVG, laid out from the program's own steps: the residual stream is the
/// straight line, attention and MLP leave it and rejoin it at sums; each step has its operation,
/// the names of its value and its shape, and its formula as a tooltip. Light and dark follow the
/// reader's preference; title and description are for screen readers. The same bytes on every
/// system.
///
/// Usage Error: no block of that number.
///
///     auto program = mainstem::build_block_program(spec);
///     std::ofstream("block.svg") << mainstem::draw_svg({program});
std::string draw_svg(const BlockView& view);
/// Two side by side. A step is marked where the other block has none of the same names, shape,
/// operation, numbers (eps, rotary base) and weights; what its inputs come from does not count. A
/// sum is known by what it adds.
std::string draw_svg(const BlockView& view, const BlockView& against);

/// The same as text with box-drawing characters, at most `width` columns wide where the block
/// allows it; shapes then have letters only, and the numbers stand above.
std::string draw_text(const BlockView& view, int width = 80);
std::string draw_text(const BlockView& view, const BlockView& against, int width = 80);

}  // namespace mainstem
