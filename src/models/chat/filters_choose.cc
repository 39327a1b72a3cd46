#include "io/text.h"
#include "models/chat/arguments.h"
#include "models/chat/filters.h"
#include "models/chat/interpreter.h"
#include "models/chat/operators.h"

// default, map, and those that choose elements by a test.

namespace mainstem::chat {
namespace {

Value fallback(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'default'", arguments, {"default_value", "boolean"});
  if (!value.is(Kind::kUndefined) && !(bound.truth(1, false) && !is_true(value))) return value;
  return bound.given(0) ? bound[0] : runtime.text("");
}

std::string_view name_of(const char* what, const Value& value) {
  if (!value.is(Kind::kString)) refuse_value(what, "its name", value);
  return value.text();
}

Value map_attribute(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'map'", arguments, {"attribute", "default"}, 1);
  const AttributePath path(bound[0]);
  const Value* instead = bound[1].is(Kind::kNone) ? nullptr : &bound[1];
  Items items = elements(runtime, value);
  for (Value& item : items) item = path(runtime, item, instead);
  return runtime.iterator(std::move(items));
}

Value map(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Runtime::Level level(runtime);  // map('map', …)
  if (!is_true(value)) return runtime.iterator({});
  if (arguments.positional.empty()) return map_attribute(runtime, value, arguments);
  const std::string_view name = name_of("filter 'map'", arguments.positional[0]);
  const FilterFunction filter = find_filter(name);
  if (filter == nullptr) {
    throw bad_input("filter 'map'", "what is supported here", "the filter " + quote(name));
  }
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  rest.named = arguments.named;
  Items items = elements(runtime, value);
  for (Value& item : items) item = filter(runtime, item, rest);
  return runtime.iterator(std::move(items));
}

enum class Choice { kKeep, kDrop };
enum class By { kValue, kAttribute };

template <Choice What, By How>
Value choose(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!is_true(value)) return runtime.iterator({});
  size_t used = 0;
  AttributePath path{Value()};
  if (How == By::kAttribute) {
    if (arguments.positional.empty())
      throw bad_input("filter 'selectattr'", "an attribute", "none");
    path = AttributePath(arguments.positional[used++]);
  }
  TestFunction test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > used) {
    const std::string_view name = name_of("filter 'select'", arguments.positional[used++]);
    test = find_test(name);
    if (test == nullptr) {
      throw bad_input("filter 'select'", "what is supported here", "the test " + quote(name));
    }
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(used),
                           arguments.positional.end());
    rest.named = arguments.named;
  }
  Items kept;
  for (Value& item : elements(runtime, value)) {
    const Value seen = path(runtime, item);
    const bool passes = test != nullptr ? test(runtime, seen, rest) : is_true(seen);
    if (passes == (What == Choice::kKeep)) kept.push_back(std::move(item));
  }
  return runtime.iterator(std::move(kept));
}

constexpr FilterEntry kFilters[] = {
    {"d", fallback},
    {"default", fallback},
    {"map", map},
    {"reject", choose<Choice::kDrop, By::kValue>},
    {"rejectattr", choose<Choice::kDrop, By::kAttribute>},
    {"select", choose<Choice::kKeep, By::kValue>},
    {"selectattr", choose<Choice::kKeep, By::kAttribute>},
};

}  // namespace

std::span<const FilterEntry> choosing_filters() { return kFilters; }

FilterFunction find_filter(std::string_view name) {
  for (const auto& filters :
       {text_filters(), number_filters(), sequence_filters(), choosing_filters()}) {
    for (const FilterEntry& entry : filters) {
      if (entry.name == name) return entry.function;
    }
  }
  return nullptr;
}

}  // namespace mainstem::chat
