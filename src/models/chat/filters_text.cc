#include <algorithm>

#include "models/chat/arguments.h"
#include "models/chat/filters.h"
#include "models/chat/methods.h"
#include "models/chat/operators.h"
#include "models/chat/python_text.h"

namespace mainstem::chat {
namespace {

/// A value as text; markup stays markup.
Value soft(Runtime& runtime, const Value& value) {
  return value.is(Kind::kString) ? value : runtime.text(to_text(runtime, value));
}

template <std::string (*Change)(std::string_view)>
Value changed(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("filter", arguments, 0, 0);
  const Value text = soft(runtime, value);
  runtime.walk(text.text().size());
  return runtime.text(Change(text.text()), text.is_markup());
}

Value string(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("filter 'string'", arguments, 0, 0);
  return soft(runtime, value);
}

Value trim(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'trim'", arguments, {"chars"});
  const Value text = soft(runtime, value);
  runtime.read(text.text().size());
  if (bound[0].is(Kind::kNone)) {
    return runtime.text(std::string(strip_space(text.text(), Ends::kBoth)), text.is_markup());
  }
  return runtime.text(strip_any(text.text(), bound.text(0, ""), Ends::kBoth), text.is_markup());
}

Value replace_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'replace'", arguments, {"old", "new", "count"}, 2);
  const int64_t count = bound[2].is(Kind::kNone) ? -1 : bound.integer(2, -1);
  return replace_text(runtime, to_text(runtime, value), to_text(runtime, bound[0]),
                      to_text(runtime, bound[1]), count);
}

Value safe(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("filter 'safe'", arguments, 0, 0);
  return runtime.text(to_text(runtime, value), true);
}

Value escape(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("filter 'escape'", arguments, 0, 0);
  if (value.is_markup()) return value;
  const std::string text = to_text(runtime, value);
  runtime.expect_text(text.size(), 5);
  return runtime.text(escape_markup(text), true);
}

Value indent(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'indent'", arguments, {"width", "first", "blank"});
  if (!value.is(Kind::kString)) refuse_value("filter 'indent'", "a string", value);
  std::string margin;
  if (bound[0].is(Kind::kString)) {
    margin = bound[0].text();
  } else {
    const int64_t width = std::max<int64_t>(bound.integer(0, 4), 0);
    runtime.expect_text(static_cast<uint64_t>(width), 1);
    margin.assign(static_cast<size_t>(width), ' ');
  }
  runtime.walk(value.text().size());
  runtime.expect_items(value.text().size() + 1);
  // The added line end makes the last line count, empty or not.
  const std::vector<std::string> lines = split_lines(std::string(value.text()) + "\n", false);
  runtime.expect_text(lines.size(), margin.size() + 1);
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool wanted = i == 0 ? bound.truth(1, false) : bound.truth(2, false) || !lines[i].empty();
    if (i > 0) text += '\n';
    if (wanted) text += margin;
    text += lines[i];
  }
  return runtime.text(std::move(text), value.is_markup());
}

Value format(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value text = soft(runtime, value);
  if (text.is_markup()) {
    throw bad_input("filter 'format'", "a string that is not markup", "markup");
  }
  if (arguments.named.empty()) {
    return runtime.text(format_percent(runtime, text.text(), runtime.tuple(arguments.positional)));
  }
  if (!arguments.positional.empty()) {
    throw bad_input("filter 'format'", "positional or named arguments", "both");
  }
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [name, given] : arguments.named) {
    entries.emplace_back(runtime.text(name), given);
  }
  return runtime.text(format_percent(runtime, text.text(), runtime.dict(std::move(entries))));
}

Value tojson(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'tojson'", arguments,
                    {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = bound.truth(0, false);
  style.sort_keys = bound.truth(3, false);
  style.indented = !bound[1].is(Kind::kNone);
  if (style.indented) {
    style.item_separator = ",";
    if (bound[1].is(Kind::kString)) {
      style.indent = bound[1].text();
    } else {
      const int64_t width = std::max<int64_t>(bound.integer(1, 0), 0);
      runtime.expect_text(static_cast<uint64_t>(width), 1);
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (!bound[2].is(Kind::kNone)) {
    const Items both = elements(runtime, bound[2]);
    if (both.size() != 2 || !both[0].is(Kind::kString) || !both[1].is(Kind::kString)) {
      bound.refuse(2, "two strings");
    }
    style.item_separator = both[0].text();
    style.key_separator = both[1].text();
  }
  return runtime.text(to_json(runtime, value, style));
}

constexpr FilterEntry kFilters[] = {
    {"capitalize", changed<capitalize>},
    {"e", escape},
    {"escape", escape},
    {"format", format},
    {"indent", indent},
    {"lower", changed<lower>},
    {"replace", replace_filter},
    {"safe", safe},
    {"string", string},
    {"title", changed<title_words>},
    {"tojson", tojson},
    {"trim", trim},
    {"upper", changed<upper>},
};

}  // namespace

std::span<const FilterEntry> text_filters() { return kFilters; }

}  // namespace mainstem::chat
