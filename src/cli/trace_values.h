#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainstem/program.h"
#include "mainstem/tensor.h"

namespace mainstem::cli {

/// A value that the user wants, under the earliest of its names that was asked for.
struct Selected {
  SiteId site;
  ValueId value = kNoId;
};
/// A usage Error for a glob that fits no step, naming it.
std::vector<Selected> select_sites(const Program& program, const std::vector<std::string>& globs);

/// Query tokens to keep: [begin, end).
struct Positions {
  int64_t begin = 0, end = 0;
  bool all = true;
};
/// "all", "last", "A:B" (half-open, either end may be left out).
Positions parse_positions(const std::string& text, int64_t tokens);

/// The shape that a value has in a first pass over so many tokens of one sequence.
Shape shape_in_pass(const Program& program, const Selected& selected, int64_t tokens,
                    int64_t encoder_tokens);

/// Which axis of the value counts query tokens that may be cut; -1: none (keys, values, tokens, and
/// all that belongs to an encoder's own tokens where a decoder follows).
int query_axis(const Program& program, const Selected& selected);
/// Rows [begin, end) of one axis. A view of the same memory where that is possible, else a copy
/// that `keep` holds.
TensorView cut(const TensorView& view, int axis, int64_t begin, int64_t end, Tensor& keep);

/// NaN anywhere makes all three NaN.
struct Summary {
  double rms = 0, minimum = 0, maximum = 0;
  std::vector<double> first;  ///< up to 8
  bool is_f32 = false, is_integer = false;
};
Summary summarise(const TensorView& view);

}  // namespace mainstem::cli
