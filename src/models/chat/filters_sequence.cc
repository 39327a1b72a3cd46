#include <algorithm>
#include <unordered_set>

#include "models/chat/arguments.h"
#include "models/chat/filters.h"
#include "models/chat/interpreter.h"
#include "models/chat/merge_sort.h"
#include "models/chat/methods.h"
#include "models/chat/operators.h"
#include "models/chat/python_text.h"

namespace mainstem::chat {
namespace {

/// What sorts, and the value it stands for.
struct Keyed {
  Value key, value;
};

Value length(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("filter 'length'", arguments, 0, 0);
  switch (value.kind()) {
    case Kind::kUndefined:
      return Value(int64_t{0});
    case Kind::kString:
      return Value(count_points(value.text()));
    case Kind::kList:
    case Kind::kTuple:
      return Value(static_cast<int64_t>(value.items().size()));
    case Kind::kDict:
      return Value(static_cast<int64_t>(value.at<const Dict>().entries.size()));
    case Kind::kView:
      return Value(static_cast<int64_t>(value.at<const View>().dict->entries.size()));
    case Kind::kRange:
      return Value(value.at<const Range>().size());
    case Kind::kLoop:
      return Value(static_cast<int64_t>(value.at<Loop>().items.size()));
    default:
      refuse_value("filter 'length'", "a value with a length", value);
  }
}

Value first(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("filter 'first'", arguments, 0, 0);
  if (value.is(Kind::kIterator)) {
    auto& iterator = value.at<Iterator>();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
  } else if (const Items items = elements(runtime, value); !items.empty()) {
    return items.front();
  }
  return Value::undefined("there is no first item: the sequence is empty");
}

Value last(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("filter 'last'", arguments, 0, 0);
  if (value.is(Kind::kIterator)) refuse_value("filter 'last'", "a sequence", value);
  const Items items = elements(runtime, value);
  return items.empty() ? Value::undefined("there is no last item: the sequence is empty")
                       : items.back();
}

Value join(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'join'", arguments, {"d", "attribute"});
  Items items = elements(runtime, value);
  if (!bound[1].is(Kind::kNone)) {
    const AttributePath path(bound[1]);
    for (Value& item : items) item = path(runtime, item);
  }
  const std::string separator = bound.given(0) ? to_text(runtime, bound[0]) : std::string();
  return join_texts(runtime, items, separator);
}

Value list(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("filter 'list'", arguments, 0, 0);
  return runtime.list(elements(runtime, value));
}

Value items_of(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("filter 'items'", arguments, 0, 0);
  Items items;
  if (value.is(Kind::kDict)) {
    for (const auto& [key, held] : value.at<const Dict>().entries) {
      items.push_back(runtime.tuple({key, held}));
    }
  } else if (!value.is(Kind::kUndefined)) {
    refuse_value("filter 'items'", "a dict", value);
  }
  return runtime.iterator(std::move(items));
}

Value reverse(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("filter 'reverse'", arguments, 0, 0);
  if (value.is(Kind::kString)) {
    return slice(runtime, value, Value(), Value(), Value(int64_t{-1}));
  }
  Items items = elements(runtime, value);
  std::reverse(items.begin(), items.end());
  // Python reverses what has an order in place of a list of its own.
  return value.is(Kind::kIterator) ? runtime.list(std::move(items))
                                   : runtime.iterator(std::move(items));
}

void sort_by_key(Runtime& runtime, std::vector<Keyed>& all, bool descending) {
  const auto before = [&](const Keyed& a, const Keyed& b) { return less(runtime, a.key, b.key); };
  // Equal ones keep their order both ways, as with Python's `reverse`.
  if (descending) std::reverse(all.begin(), all.end());
  merge_sort(all, before);
  if (descending) std::reverse(all.begin(), all.end());
}

Value values_of(Runtime& runtime, std::vector<Keyed>& all) {
  Items items;
  for (Keyed& each : all) items.push_back(std::move(each.value));
  return runtime.list(std::move(items));
}

Value sort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'sort'", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<AttributePath> paths;
  if (bound[2].is(Kind::kString)) {
    for (const std::string& part : split_at(bound[2].text(), ",", -1, false)) {
      paths.emplace_back(runtime.text(part));
    }
  } else {
    paths.emplace_back(bound[2]);
  }
  std::vector<Keyed> all;
  for (Value& item : elements(runtime, value)) {
    Items keys;
    for (const AttributePath& path : paths) {
      const Value key = path(runtime, item);
      keys.push_back(bound.truth(1, false) ? key : without_case(runtime, key));
    }
    all.push_back({runtime.list(std::move(keys)), std::move(item)});
  }
  sort_by_key(runtime, all, bound.truth(0, false));
  return values_of(runtime, all);
}

Value dictsort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'dictsort'", arguments, {"case_sensitive", "by", "reverse"});
  const std::string_view by = bound.text(1, "key");
  if (by != "key" && by != "value") bound.refuse(1, "'key' or 'value'");
  if (!value.is(Kind::kDict)) refuse_value("filter 'dictsort'", "a dict", value);
  std::vector<Keyed> all;
  for (const auto& [key, held] : value.at<const Dict>().entries) {
    const Value& chosen = by == "key" ? key : held;
    all.push_back({bound.truth(0, false) ? chosen : without_case(runtime, chosen),
                   runtime.tuple({key, held})});
  }
  sort_by_key(runtime, all, bound.truth(2, false));
  return values_of(runtime, all);
}

Value unique(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'unique'", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(bound[1]);
  std::unordered_set<std::string> seen;
  Items kept;
  for (Value& item : elements(runtime, value)) {
    const Value key = path(runtime, item);
    const Value compared = bound.truth(0, false) ? key : without_case(runtime, key);
    if (seen.insert(hash_key(runtime, compared)).second) kept.push_back(std::move(item));
  }
  return runtime.iterator(std::move(kept));
}

template <bool Largest>
Value extreme(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'min' or 'max'", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(bound[1]);
  std::vector<Keyed> best;
  for (Value& item : elements(runtime, value)) {
    Value key = path(runtime, item);
    if (!bound.truth(0, false)) key = without_case(runtime, key);
    if (best.empty()) {
      best.push_back({std::move(key), std::move(item)});
    } else if (Largest ? less(runtime, best[0].key, key) : less(runtime, key, best[0].key)) {
      best[0] = {std::move(key), std::move(item)};
    }
  }
  return best.empty() ? Value::undefined("the sequence is empty") : best[0].value;
}

Value sum(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'sum'", arguments, {"attribute", "start"});
  const AttributePath path(bound[0]);
  Value total = bound.given(1) ? bound[1] : Value(int64_t{0});
  if (total.is(Kind::kString)) bound.refuse(1, "no string");
  for (const Value& item : elements(runtime, value)) {
    total = apply(runtime, BinaryOp::kAdd, total, path(runtime, item));
  }
  return total;
}

constexpr FilterEntry kFilters[] = {
    {"count", length},      {"dictsort", dictsort},  {"first", first},     {"items", items_of},
    {"join", join},         {"last", last},          {"length", length},   {"list", list},
    {"max", extreme<true>}, {"min", extreme<false>}, {"reverse", reverse}, {"sort", sort},
    {"sum", sum},           {"unique", unique},
};

}  // namespace

AttributePath::AttributePath(const Value& attribute) {
  if (attribute.is(Kind::kNone)) return;
  if (!attribute.is(Kind::kString)) {
    parts_.push_back(attribute);
    return;
  }
  for (std::string& part : split_at(attribute.text(), ".", -1, false)) {
    const bool number = !part.empty() && part.size() < 19 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    if (number) {
      parts_.emplace_back(static_cast<int64_t>(std::stoll(part)));
    } else {
      parts_.emplace_back(Shared<const Text>(std::make_shared<Text>(Text{std::move(part)})));
    }
  }
}

Value AttributePath::operator()(Runtime& runtime, Value item, const Value* fallback) const {
  for (const Value& part : parts_) {
    runtime.step();
    item = get_item(runtime, item, part);
    if (fallback != nullptr && item.is(Kind::kUndefined)) item = *fallback;
  }
  return item;
}

Value without_case(Runtime& runtime, const Value& value) {
  if (!value.is(Kind::kString)) return value;
  runtime.walk(value.text().size());
  return runtime.text(lower(value.text()));
}

std::span<const FilterEntry> sequence_filters() { return kFilters; }

}  // namespace mainstem::chat
