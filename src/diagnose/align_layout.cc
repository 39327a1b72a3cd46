#include "diagnose/align_layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mainstem/error.h"

namespace mainstem {
namespace {

/// An axis of a value where a tensor may have it.
struct Axis {
  char letter;
  int64_t size;
  int index;  ///< in the value's own order
};

/// Two neighbours that programs write as one.
bool can_merge(char a, char b) {
  constexpr const char* kPairs[] = {"BT", "TH", "TK", "HE", "KE", "BH", "BK", "SK", "HT"};
  return std::any_of(std::begin(kPairs), std::end(kPairs),
                     [&](const char* pair) { return pair[0] == a && pair[1] == b; });
}
/// Heads may be written as groups of heads, fused channels in any way.
bool can_split(char letter) { return letter == 'H' || letter == 'C'; }

/// Whether axes of these sizes, one after another, can make up a tensor of that shape.
bool fits(const std::vector<Axis>& axes, const Shape& shape) {
  std::vector<Axis> real;
  for (const Axis& axis : axes) {
    if (axis.size != 1) real.push_back(axis);
  }
  Shape dims;
  for (const int64_t dim : shape) {
    if (dim != 1) dims.push_back(dim);
  }
  size_t a = 0, d = 0;
  while (a < real.size() && d < dims.size()) {
    int64_t have = real[a].size, want = dims[d];
    const size_t first_axis = a, first_dim = d;
    while (have != want) {
      if (have < want) {
        ++a;
        if (a == real.size() || d != first_dim || !can_merge(real[a - 1].letter, real[a].letter)) {
          return false;
        }
        have *= real[a].size;
      } else {
        ++d;
        if (d == dims.size() || a != first_axis || !can_split(real[a].letter)) return false;
        want *= dims[d];
      }
    }
    ++a, ++d;
  }
  return a == real.size() && d == dims.size();
}

std::vector<Axis> in_order(const std::vector<Axis>& axes, std::string_view letters) {
  std::vector<Axis> ordered;
  for (const char letter : letters) {
    const auto axis = std::find_if(axes.begin(), axes.end(),
                                   [&](const Axis& each) { return each.letter == letter; });
    if (axis != axes.end()) ordered.push_back(*axis);
  }
  return ordered;
}

/// The orders in which programs write such axes, the most usual first.
std::vector<std::string> orders_of(const std::string& letters) {
  if (letters == "BTHE") return {"BTHE", "BHTE", "TBHE", "BHET"};
  if (letters == "BTKE") return {"BTKE", "BKTE", "TBKE", "BKET"};
  if (letters == "BSKE") return {"BSKE", "BKSE", "SBKE"};
  if (letters == "BHTS") return {"BHTS", "BTHS", "HBTS"};
  if (letters.size() == 3 && letters.starts_with("BT")) {
    return {letters, std::string("TB") + letters[2]};
  }
  return {letters};
}

Layout layout_of(const std::vector<Axis>& axes) {
  Layout layout;
  for (const Axis& axis : axes) {
    layout.sizes.push_back(axis.size);
    layout.axes.push_back(axis.index);
  }
  return layout;
}

/// The order of the axes that count, for telling layouts apart.
std::vector<int> real_order(const Layout& layout) {
  std::vector<int> order;
  for (size_t i = 0; i < layout.axes.size(); ++i) {
    if (layout.sizes[i] != 1) order.push_back(layout.axes[i]);
  }
  return order;
}

void add_fitting(const std::vector<Axis>& axes, const Shape& shape, std::vector<Layout>& found) {
  std::string letters;
  for (const Axis& axis : axes) letters += axis.letter;
  for (const std::string& order : orders_of(letters)) {
    const std::vector<Axis> ordered = in_order(axes, order);
    if (!fits(ordered, shape)) continue;
    Layout layout = layout_of(ordered);
    const auto same = [&](const Layout& each) { return real_order(each) == real_order(layout); };
    if (std::none_of(found.begin(), found.end(), same)) found.push_back(std::move(layout));
  }
}

/// Calls visit(flat index in the value, flat index in the tensor) for every number they share.
template <typename Visit>
void for_each_shared(const Layout& layout, const Shape& value_shape, size_t token_axis,
                     const Visit& visit) {
  const size_t rank = layout.axes.size();
  Shape value_strides(value_shape.size(), 1);
  for (size_t i = value_shape.size(); i-- > 1;) {
    value_strides[i - 1] = value_strides[i] * value_shape[i];
  }
  const int64_t count = element_count(layout.sizes);
  std::vector<int64_t> index(rank, 0);
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t at = 0;
    bool inside = true;
    for (size_t i = 0; i < rank; ++i) {
      const auto axis = static_cast<size_t>(layout.axes[i]);
      int64_t place = index[i];
      if (axis == token_axis) place += layout.first_row;
      if (layout.repeats > 1 && axis == 2) {
        const int64_t kept = value_shape[2];
        const int64_t copy = layout.in_turn ? place / kept : place % layout.repeats;
        place = layout.in_turn ? place % kept : place / layout.repeats;
        inside &= copy == 0;
      }
      inside &= place < value_shape[axis];  // keys behind the last are padding
      at += place * value_strides[axis];
    }
    if (inside) visit(static_cast<size_t>(at), static_cast<size_t>(flat));
    for (size_t i = rank; i-- > 0;) {
      if (++index[i] < layout.sizes[i]) break;
      index[i] = 0;
    }
  }
}

/// The tensor holds the very numbers of the value, in their order.
bool is_value_order(const Layout& layout, const Shape& value_shape) {
  return layout.sizes == value_shape && std::is_sorted(layout.axes.begin(), layout.axes.end()) &&
         layout.first_row == 0 && layout.repeats == 1;
}

}  // namespace

Numbers read_numbers(const Dump& dump, const DumpTensor& tensor) {
  Numbers numbers;
  if (!tensor.printed) {
    numbers.data = to_f64(dump.read(tensor).view());
    return numbers;
  }
  const PrintedValues printed = dump.read_printed(tensor);
  const auto count = static_cast<size_t>(element_count(tensor.shape));
  numbers.data.assign(count, 0);
  numbers.errors.assign(count, 0);
  if (printed.indices.size() < count) numbers.known.assign(count, 0);
  for (size_t i = 0; i < printed.indices.size(); ++i) {
    const auto at = static_cast<size_t>(printed.indices[i]);
    numbers.data[at] = printed.values[i];
    numbers.errors[at] = printed.errors[i];
    if (!numbers.known.empty()) numbers.known[at] = 1;
  }
  return numbers;
}

Shape shape_of(const Value& value, const RunSizes& sizes) {
  Shape shape;
  for (const Dim& dim : value.dims) {
    shape.push_back(dim.size >= 0       ? dim.size
                    : dim.letter == 'B' ? sizes.batch
                    : dim.letter == 'T' ? sizes.tokens
                                        : sizes.keys);
  }
  return shape;
}

std::string shape_text(const Value& value, const RunSizes& sizes) {
  std::string letters;
  for (const Dim& dim : value.dims) letters += std::string(letters.empty() ? "" : ",") + dim.letter;
  return "[" + letters + "] = " + to_string(shape_of(value, sizes));
}

std::vector<Layout> layouts(const Value& value, const RunSizes& sizes, const Shape& shape,
                            int64_t heads) {
  const Shape own = shape_of(value, sizes);
  std::vector<Axis> axes;
  size_t token = own.size(), keys = own.size();
  for (size_t i = 0; i < own.size(); ++i) {
    const char letter = value.dims[i].letter;
    if (letter == 'T') token = i;
    if (letter == 'S' && i == 3) keys = i;
    axes.push_back({letter, own[i], static_cast<int>(i)});
  }
  std::vector<Layout> found;
  const auto try_rows = [&](std::vector<Axis> tried) {
    add_fitting(tried, shape, found);
    if (!found.empty() || token == own.size()) return;
    // Fewer tokens: as many as the other axes leave.
    int64_t others = 1;
    for (size_t i = 0; i < tried.size(); ++i) {
      if (i != token) others *= std::max<int64_t>(tried[i].size, 1);
    }
    const int64_t count = element_count(shape);
    if (count == 0 || count % others != 0 || count / others >= own[token]) return;
    tried[token].size = count / others;
    add_fitting(tried, shape, found);
    for (Layout& layout : found) layout.first_row = own[token] - tried[token].size;
  };
  try_rows(axes);
  if (found.empty() && keys < own.size() && !shape.empty() && shape.back() > own[keys]) {
    axes[keys].size = shape.back();
    try_rows(axes);
  }
  const int64_t kept = own.size() == 4 && keys == own.size() ? own[2] : 0;
  if (found.empty() && kept > 0 && heads > kept && heads % kept == 0) {
    axes[2].size = heads;
    try_rows(axes);
    std::vector<Layout> both;
    for (Layout& layout : found) {
      layout.repeats = heads / kept;
      both.push_back(layout);
      if (kept == 1) continue;
      layout.in_turn = true;
      both.push_back(layout);
    }
    found = std::move(both);
  }
  return found;
}

std::vector<Layout> fused_layouts(const RunSizes& sizes, int64_t width, const Shape& shape) {
  const Value whole{.dims = {{'B', -1}, {'T', -1}, {'C', width}}, .width = width};
  return layouts(whole, sizes, shape, 0);
}

Numbers in_value_order(Numbers theirs, const Layout& layout, const Shape& value_shape,
                       size_t token_axis) {
  if (is_value_order(layout, value_shape) && theirs.known.empty()) return theirs;
  const auto count = static_cast<size_t>(element_count(value_shape));
  Numbers ours;
  ours.data.assign(count, 0);
  ours.known.assign(count, 0);
  if (!theirs.errors.empty()) ours.errors.assign(count, 0);
  for_each_shared(layout, value_shape, token_axis, [&](size_t at, size_t flat) {
    ours.data[at] = theirs.data[flat];
    ours.known[at] = theirs.known.empty() ? 1 : theirs.known[flat];
    if (!theirs.errors.empty()) ours.errors[at] = theirs.errors[flat];
  });
  if (std::all_of(ours.known.begin(), ours.known.end(), [](uint8_t k) { return k != 0; })) {
    ours.known.clear();
  }
  return ours;
}

Numbers columns_of(const Numbers& whole, int64_t width, const std::vector<int64_t>& columns) {
  Numbers part;
  const size_t rows = whole.data.size() / static_cast<size_t>(width);
  const auto take = [&](const auto& from, auto& to) {
    if (from.empty()) return;
    to.reserve(rows * columns.size());
    for (size_t row = 0; row < rows; ++row) {
      for (const int64_t column : columns) {
        to.push_back(from[row * static_cast<size_t>(width) + static_cast<size_t>(column)]);
      }
    }
  };
  take(whole.data, part.data);
  take(whole.known, part.known);
  take(whole.errors, part.errors);
  return part;
}

bool any_known(const Numbers& numbers) {
  return numbers.known.empty() ||
         std::any_of(numbers.known.begin(), numbers.known.end(), [](uint8_t k) { return k != 0; });
}

bool agree(const Numbers& a, const Numbers& b) {
  if (a.data.size() != b.data.size()) return false;
  const auto error = [](const Numbers& of, size_t i) {
    return of.errors.empty() ? 0.0 : static_cast<double>(of.errors[i]);
  };
  bool any = false;
  for (size_t i = 0; i < a.data.size(); ++i) {
    if (!a.known.empty() && a.known[i] == 0) continue;
    if (!b.known.empty() && b.known[i] == 0) continue;
    any = true;
    const bool same_infinity = a.data[i] == b.data[i];
    if (!same_infinity && !(std::abs(a.data[i] - b.data[i]) <= error(a, i) + error(b, i))) {
      return false;
    }
  }
  return any;
}

bool repeats_differ(const Numbers& theirs, const Layout& layout) {
  if (layout.repeats == 1) return false;
  size_t axis = 0;
  while (layout.axes[axis] != 2) ++axis;
  int64_t inner = 1;
  for (size_t i = axis + 1; i < layout.sizes.size(); ++i) inner *= layout.sizes[i];
  const int64_t heads = layout.sizes[axis];
  const int64_t kept = heads / layout.repeats;
  for (size_t flat = 0; flat < theirs.data.size(); ++flat) {
    const auto head = static_cast<int64_t>(flat) / inner % heads;
    const int64_t first = layout.in_turn ? head % kept : head - head % layout.repeats;
    const size_t twin = flat - static_cast<size_t>((head - first) * inner);
    if (!theirs.known.empty() && (theirs.known[flat] == 0 || theirs.known[twin] == 0)) continue;
    if (theirs.data[flat] != theirs.data[twin] && !std::isnan(theirs.data[flat])) return true;
  }
  return false;
}

}  // namespace mainstem
