#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mainstem/dump.h"
#include "mainstem/program.h"

namespace mainstem {

/// The known numbers of a tensor, in its own layout or in a value's.
struct Numbers {
  std::vector<double> data = {};
  std::vector<uint8_t> known = {};  ///< empty: all
  std::vector<float> errors = {};   ///< of printed numbers; empty: none
};

/// Reads a tensor of any type.
Numbers read_numbers(const Dump& dump, const DumpTensor& tensor);

/// What the letters B, T and S of a value stand for in one pass.
struct RunSizes {
  int64_t batch = 1, tokens = 0, keys = 0;
};

/// How the numbers of a value lie in a tensor.
struct Layout {
  Shape sizes = {};            ///< of the tensor's axes, in its own order
  std::vector<int> axes = {};  ///< which axis of the value each of them is
  int64_t first_row = 0;       ///< the tensor's first token, where it has fewer than the value
  /// Heads of keys and values as often as there are query heads: 1 where they are not, else H/K.
  int64_t repeats = 1;
  bool in_turn = false;  ///< repeated as 0 1 0 1 instead of 0 0 1 1
};

/// The shape of a value in one pass.
Shape shape_of(const Value& value, const RunSizes& sizes);
/// "[B,T,H,E] = [1, 5, 6, 10]".
std::string shape_text(const Value& value, const RunSizes& sizes);

/// Every way in which a tensor of that shape can hold the value, the most usual first. Axes of size
/// 1 may be there or not; neighbours may be one axis; tokens may be missing; keys may be padded.
/// `heads` is H, for repeated keys; 0 where that cannot be.
std::vector<Layout> layouts(const Value& value, const RunSizes& sizes, const Shape& shape,
                            int64_t heads);

/// The same where the value's channels are some of the `width` of a fused tensor.
std::vector<Layout> fused_layouts(const RunSizes& sizes, int64_t width, const Shape& shape);

/// The numbers in the value's own order; what the tensor does not hold is not known.
Numbers in_value_order(Numbers theirs, const Layout& layout, const Shape& value_shape,
                       size_t token_axis);
/// The channels `columns` of a fused tensor in [B,T,width] order.
Numbers columns_of(const Numbers& whole, int64_t width, const std::vector<int64_t>& columns);

/// A part of a printed tensor may have none that was printed.
bool any_known(const Numbers& numbers);
/// Do both know some of the same elements, and agree in all of those up to how they were printed?
bool agree(const Numbers& a, const Numbers& b);

/// Heads that should be copies of each other differ.
bool repeats_differ(const Numbers& theirs, const Layout& layout);

}  // namespace mainstem
