#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/trace_input.h"
#include "diagnose/foreign_names.h"
#include "mainstem/program.h"
#include "mainstem/tensor.h"

namespace mainstem::cli {

/// "blocks.{0,2}.*, logits" as globs: split at commas outside braces, spaces left out, braces
/// written out. Usage errors: nothing between two commas, a brace that is not closed.
std::vector<std::string> parse_globs(const std::string& list);

/// A step that the user wants. A value that has several names is given once, under the earliest of
/// them that a glob fits; the others only say so. A name written out is always given.
struct Selected {
  SiteId site;
  ValueId value = kNoId;
  std::string name = {};               ///< what it is called, in the naming asked for
  std::optional<SiteId> same_as = {};  ///< the first name of the value, where this is another
  bool is_line = false;                ///< a second name that a glob fits: not given again
};
/// In the order of the program. Globs may use the names of `naming` too. A usage Error for one
/// that fits no step, naming it.
std::vector<Selected> select_sites(const Program& program, std::string_view family,
                                   const std::vector<std::string>& globs, Naming naming);

/// Query tokens to keep: [begin, end).
struct Positions {
  int64_t begin = 0, end = 0;
  bool all = true;
};
/// "all", "last", "N", "A:B" (half-open, either end may be left out); -1 is the last token.
Positions parse_positions(const std::string& text, int64_t tokens);

/// The shape that a value has in a first pass over the input.
Shape shape_in_pass(const Program& program, const Selected& selected, const TraceInput& input);

/// How many leading indices of an axis stand for padding, for each index of axis 0.
struct AxisPadding {
  size_t axis = 0;
  std::vector<int64_t> counts;
};
/// Of the axes that count tokens, queries or keys. None where nothing is padded.
std::vector<AxisPadding> paddings(const Program& program, const Selected& selected,
                                  const TraceInput& input);

/// Which axis of the value counts query tokens that may be cut; -1: none (keys, values, tokens, and
/// all that belongs to an encoder's own tokens where a decoder follows).
int query_axis(const Program& program, const Selected& selected);
/// Rows [begin, end) of one axis. A view of the same memory where that is possible, else a copy
/// that `keep` holds.
TensorView cut(const TensorView& view, int axis, int64_t begin, int64_t end, Tensor& keep);

/// Of all elements that do not stand for padding. NaN anywhere makes all three NaN.
struct Summary {
  double rms = 0, minimum = 0, maximum = 0;
  std::vector<double> first;  ///< up to 8
  bool is_f32 = false, is_integer = false;
};
Summary summarise(const TensorView& view, std::span<const AxisPadding> paddings = {});

}  // namespace mainstem::cli
