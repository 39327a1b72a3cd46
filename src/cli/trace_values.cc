#include "cli/trace_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "cli/step_table.h"
#include "cli/text.h"
#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

constexpr int64_t kFirstValues = 8;

bool only_in_cache(Site site) { return site == Site::kKCache || site == Site::kVCache; }

/// A token's number; negative ones count from the end.
int64_t parse_number(std::string_view text, int64_t tokens, const std::string& whole) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw usage_error("--positions", "all, last, N or A:B", "'" + whole + "'");
  }
  return number < 0 ? number + tokens : number;
}

constexpr size_t kMostGlobs = 10000;

/// The texts that a glob with braces stands for.
void write_out(const std::string& glob, std::vector<std::string>& out) {
  if (out.size() > kMostGlobs) throw usage_error("--sites", "at most 10000 globs", "more");
  const size_t open = glob.find('{');
  if (open == std::string::npos) return out.push_back(glob);
  int depth = 0;
  size_t begin = open + 1;
  std::vector<std::string> choices;
  for (size_t at = open; at < glob.size(); ++at) {
    if (glob[at] == '{') ++depth;
    if (glob[at] == '}') --depth;
    if ((glob[at] != ',' || depth != 1) && depth != 0) continue;
    choices.push_back(glob.substr(begin, at - begin));
    begin = at + 1;
    if (depth > 0) continue;
    for (const std::string& choice : choices) {
      write_out(glob.substr(0, open) + choice + glob.substr(begin), out);
    }
    return;
  }
  throw usage_error("--sites", "a } for every {", "'" + glob + "'");
}

bool is_glob(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

/// The sequences whose tokens an axis counts.
const PaddedBatch& counted_batch(const Program& program, const Selected& selected, const Dim& dim,
                                 const TraceInput& input) {
  const Value& made = program.value(program.step(program.value(selected.value).producer).output);
  const Site site = selected.site.site;
  const bool cross = site == Site::kCrossScores || site == Site::kCrossPattern;
  const bool of_encoder = made.rows == Rows::kEncoder || (dim.letter == 'S' && cross);
  return of_encoder ? input.encoder() : input.main();
}

/// Where in a row (all axes but the last) the elements begin that do not stand for padding; behind
/// its end where the whole row does.
int64_t first_seen(const Shape& shape, int64_t row, std::span<const AxisPadding> paddings) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size() - 1; axis-- > 0;) {
    index[axis] = row % shape[axis];
    row /= shape[axis];
  }
  int64_t first = 0;
  for (const AxisPadding& padding : paddings) {
    const int64_t count = padding.counts[static_cast<size_t>(index[0])];
    if (padding.axis + 1 == shape.size()) {
      first = std::max(first, count);
    } else if (index[padding.axis] < count) {
      return shape.back();
    }
  }
  return first;
}

/// Names of another world may coincide where ours are two names of one value.
void name_all(std::vector<Selected>& selected, const Program& program, std::string_view family,
              Naming naming) {
  std::set<std::string> taken;
  for (Selected& each : selected) {
    each.name = foreign_name(naming, program, family, each.value, each.site);
    if (!each.is_line && !taken.insert(each.name).second) each.name = to_string(each.site);
  }
}

}  // namespace

std::vector<std::string> parse_globs(const std::string& list) {
  std::vector<std::string> globs;
  int depth = 0;
  std::string glob;
  for (const char c : list + ",") {
    if (c == '{') ++depth;
    if (c == '}') --depth;
    if (c == ',' && depth <= 0) {
      if (glob.empty()) throw usage_error("--sites", "names of steps", "'" + list + "'");
      write_out(glob, globs);
      glob.clear();
    } else if (c != ' ') {
      glob += c;
    }
  }
  if (!glob.empty()) throw usage_error("--sites", "a } for every {", "'" + list + "'");
  return globs;
}

std::vector<Selected> select_sites(const Program& program, std::string_view family,
                                   const std::vector<std::string>& globs, Naming naming) {
  std::vector<Selected> selected;
  std::vector<bool> given(program.values.size()), used(globs.size());
  bool cache = false;
  for (const NamedValue& named : program.sites) {
    const std::string name = to_string(named.site);
    const std::string theirs = foreign_name(naming, program, family, named.value, named.site);
    bool matches = false, written_out = false;
    for (size_t i = 0; i < globs.size(); ++i) {
      const bool ours = glob_match(globs[i], name);
      if (!ours && !glob_match(globs[i], theirs)) continue;
      if (only_in_cache(named.site.site)) {
        cache = true;
        continue;
      }
      matches = used[i] = true;
      written_out |= ours && !is_glob(globs[i]);
    }
    if (!matches) continue;
    Selected each{named.site, named.value};
    each.is_line = given[static_cast<size_t>(named.value)] && !written_out;
    if (const SiteId& first = first_name(program, named.value); first != named.site) {
      each.same_as = first;
    }
    given[static_cast<size_t>(named.value)] = true;
    selected.push_back(std::move(each));
  }
  for (size_t i = 0; i < globs.size(); ++i) {
    if (used[i]) continue;
    std::vector<std::string> names;
    for (const NamedValue& named : program.sites) names.push_back(to_string(named.site));
    const std::string near = is_glob(globs[i]) ? "" : closest(globs[i], names);
    throw usage_error("--sites", "names of this model's steps", "'" + globs[i] + "'")
        .hint(cache           ? "k_cache and v_cache exist only in a pass that continues a cache"
              : !near.empty() ? "did you mean " + near + "?"
                              : "mainstem inspect MODEL lists them; as in 'blocks.0.*,logits'");
  }
  name_all(selected, program, family, naming);
  return selected;
}

Positions parse_positions(const std::string& text, int64_t tokens) {
  if (text == "all") return {0, tokens, true};
  if (text == "last") return {tokens - 1, tokens, false};
  const size_t colon = text.find(':');
  Positions result{0, tokens, false};
  const std::string_view view(text);
  if (colon != 0) result.begin = parse_number(view.substr(0, colon), tokens, text);
  if (colon == std::string::npos) {
    result.end = result.begin + 1;
  } else if (colon + 1 < text.size()) {
    result.end = parse_number(view.substr(colon + 1), tokens, text);
  }
  if (result.begin < 0 || result.begin >= result.end || result.end > tokens) {
    throw usage_error("--positions",
                      (colon == std::string::npos ? "one of the " : "A < B within the ") +
                          std::to_string(tokens) + " tokens",
                      text)
        .hint("they count from 0; -1 is the last one");
  }
  return result;
}

Shape shape_in_pass(const Program& program, const Selected& selected, const TraceInput& input) {
  Shape shape;
  for (const Dim& dim : program.value(selected.value).dims) {
    if (dim.size >= 0) {
      shape.push_back(dim.size);
    } else if (dim.letter == 'B') {
      shape.push_back(input.main().size());
    } else {
      shape.push_back(counted_batch(program, selected, dim, input).tokens());
    }
  }
  return shape;
}

std::vector<AxisPadding> paddings(const Program& program, const Selected& selected,
                                  const TraceInput& input) {
  std::vector<AxisPadding> result;
  const auto& dims = program.value(selected.value).dims;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis].size >= 0 || dims[axis].letter == 'B') continue;
    const PaddedBatch& batch = counted_batch(program, selected, dims[axis], input);
    AxisPadding padding{axis, {}};
    for (int64_t b = 0; b < batch.size(); ++b) padding.counts.push_back(batch.padding(b));
    const auto any = [](int64_t count) { return count > 0; };
    if (std::any_of(padding.counts.begin(), padding.counts.end(), any)) {
      result.push_back(std::move(padding));
    }
  }
  return result;
}

int query_axis(const Program& program, const Selected& selected) {
  if (selected.site.stack == Stack::kEncoder) return -1;
  switch (selected.site.site) {
    case Site::kTokens:
    case Site::kK:
    case Site::kV:
    case Site::kKNorm:
    case Site::kKRot:
    case Site::kCrossK:
    case Site::kCrossV:
      return -1;
    default:
      break;
  }
  const auto& dims = program.value(selected.value).dims;
  const auto axis =
      std::find_if(dims.begin(), dims.end(), [](const Dim& d) { return d.letter == 'T'; });
  return axis == dims.end() ? -1 : static_cast<int>(axis - dims.begin());
}

TensorView cut(const TensorView& view, int axis, int64_t begin, int64_t end, Tensor& keep) {
  const Shape& full = view.shape();
  const auto at = static_cast<size_t>(axis);
  if (axis < 0 || (begin == 0 && end == full[at])) return view;
  Shape shape = full;
  shape[at] = end - begin;
  int64_t outer = 1;
  for (size_t i = 0; i < at; ++i) outer *= full[i];
  const int64_t inner_bytes = outer * full[at] == 0 ? 0 : view.bytes() / (outer * full[at]);
  if (outer == 1)
    return TensorView(view.dtype(), std::move(shape), view.data() + begin * inner_bytes);
  keep = Tensor(view.dtype(), std::move(shape));
  std::byte* out = keep.data<std::byte>();
  for (int64_t i = 0; i < outer; ++i) {
    const std::byte* from = view.data() + (i * full[at] + begin) * inner_bytes;
    out = std::copy_n(from, (end - begin) * inner_bytes, out);
  }
  return keep.view();
}

Summary summarise(const TensorView& view, std::span<const AxisPadding> paddings) {
  Summary result;
  result.is_f32 = view.dtype() == DType::kF32;
  result.is_integer = view.dtype() == DType::kI64;
  double sum = 0;
  int64_t count = 0;
  result.minimum = std::numeric_limits<double>::infinity();
  result.maximum = -result.minimum;
  bool broken = false;
  std::vector<double> row(static_cast<size_t>(view.columns()));
  for (int64_t r = 0; r < view.rows(); ++r) {
    const int64_t first = paddings.empty() ? 0 : first_seen(view.shape(), r, paddings);
    if (first >= view.columns()) continue;
    read_row(view, r, row.data());
    count += view.columns() - first;
    for (const double x : std::span(row).subspan(static_cast<size_t>(first))) {
      broken |= std::isnan(x);
      sum += x * x;
      result.minimum = std::min(result.minimum, x);
      result.maximum = std::max(result.maximum, x);
      if (result.first.size() < kFirstValues) result.first.push_back(x);
    }
  }
  result.rms = std::sqrt(sum / static_cast<double>(std::max<int64_t>(count, 1)));
  if (broken)
    result.rms = result.minimum = result.maximum = std::numeric_limits<double>::quiet_NaN();
  return result;
}

}  // namespace mainstem::cli
