#include "models/chat/operators.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "models/chat/numbers.h"
#include "models/chat/python_text.h"

namespace mainstem::chat {
namespace {

constexpr std::string_view kBinaryNames[] = {"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void refuse_operands(BinaryOp op, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right}) {
    if (side->is(Kind::kUndefined)) {
      refuse_value("operator " + std::string(kBinaryNames[static_cast<int>(op)]), "a defined value",
                   *side);
    }
  }
  throw bad_input("operator " + std::string(kBinaryNames[static_cast<int>(op)]),
                  "operands that it has a meaning for",
                  std::string(type_name(left)) + " and " + std::string(type_name(right)));
}

Value add_texts(Runtime& runtime, const Value& left, const Value& right) {
  runtime.expect_text(left.text().size() + right.text().size());
  const bool markup = left.is_markup() || right.is_markup();
  const auto part = [&](const Value& side) {
    return markup && !side.is_markup() ? escape_markup(side.text()) : std::string(side.text());
  };
  return runtime.text(part(left).append(part(right)), markup);
}

Value joined(Runtime& runtime, const Value& left, const Value& right) {
  runtime.expect_items(left.items().size() + right.items().size());
  Items items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.is(Kind::kList) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

Value repeated(Runtime& runtime, const Value& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  const auto times = static_cast<uint64_t>(count);
  if (value.is(Kind::kString)) {
    runtime.expect_text(times, value.text().size());
    if (value.text().empty()) return value;
    std::string text;
    for (uint64_t i = 0; i < times; ++i) text += value.text();
    return runtime.text(std::move(text), value.is_markup());
  }
  const size_t each = value.items().size();
  if (each != 0) runtime.expect_items(times > SIZE_MAX / each ? SIZE_MAX : times * each);
  Items items;
  for (uint64_t i = 0; i < times && each != 0; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.is(Kind::kList) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

bool is_repeatable(const Value& value) { return value.is(Kind::kString) || value.is_sequence(); }
bool is_integral(const Value& value) { return value.is(Kind::kInt) || value.is(Kind::kBool); }

bool same_mapping(Runtime& runtime, const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [hashed, place] : left.places) {
    runtime.step();
    const auto found = right.places.find(hashed);
    if (found == right.places.end() ||
        !equal(runtime, left.entries[place].second, right.entries[found->second].second)) {
      return false;
    }
  }
  return true;
}

bool equal_ranges(const Range& left, const Range& right) {
  const int64_t size = left.size();
  if (size != right.size()) return false;
  if (size == 0) return true;
  return left.start == right.start && (size == 1 || left.step == right.step);
}

bool contains(Runtime& runtime, const Value& container, const Value& wanted) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!wanted.is(Kind::kString)) refuse_value("'in' on a string", "a string", wanted);
      runtime.search(container.text().size(), wanted.text().size());
      return container.text().find(wanted.text()) != std::string_view::npos;
    case Kind::kDict:
      return find(runtime, container.at<const Dict>(), wanted) != nullptr;
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      refuse_value("'in'", "a container", container);
    default: {
      // An iterator is read no further than to what is found.
      if (container.is(Kind::kIterator)) {
        auto& iterator = container.at<Iterator>();
        while (iterator.next < iterator.items.size()) {
          if (equal(runtime, iterator.items[iterator.next++], wanted)) return true;
        }
        return false;
      }
      const Items items =
          container.is_sequence() ? container.items() : elements(runtime, container);
      return std::any_of(items.begin(), items.end(),
                         [&](const Value& item) { return equal(runtime, item, wanted); });
    }
  }
}

}  // namespace

void refuse_value(const std::string& what, const std::string& expected, const Value& value) {
  if (value.is(Kind::kUndefined)) throw bad_input(what, expected, value.why_undefined());
  throw bad_input(what, expected, std::string(type_name(value)));
}

Value apply(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  if (op == BinaryOp::kModulo && left.is(Kind::kString)) {
    if (left.is_markup()) throw bad_input("operator %", "a string that is not markup", "markup");
    return runtime.text(format_percent(runtime, left.text(), right));
  }
  if (op == BinaryOp::kAdd && left.is(Kind::kString) && right.is(Kind::kString)) {
    return add_texts(runtime, left, right);
  }
  if (op == BinaryOp::kAdd && left.is_sequence() && right.kind() == left.kind()) {
    return joined(runtime, left, right);
  }
  if (op == BinaryOp::kMultiply && is_repeatable(left) && is_integral(right)) {
    return repeated(runtime, left, right.integer());
  }
  if (op == BinaryOp::kMultiply && is_repeatable(right) && is_integral(left)) {
    return repeated(runtime, right, left.integer());
  }
  if (!left.is_number() || !right.is_number()) refuse_operands(op, left, right);
  return is_integral(left) && is_integral(right)
             ? apply_integers(op, left.integer(), right.integer())
             : apply_floats(op, left.number(), right.number());
}

Value negate(const Value& value) {
  if (value.is(Kind::kFloat)) return Value(-value.as<double>());
  if (!is_integral(value)) refuse_value("operator -", "a number", value);
  return apply_integers(BinaryOp::kSubtract, 0, value.integer());
}

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  runtime.step();
  if (left.is_number() && right.is_number()) {
    return compare_numbers(left, right) == std::partial_ordering::equivalent;
  }
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (left.text().size() == right.text().size()) runtime.read(left.text().size());
      return left.text() == right.text();
    case Kind::kList:
    case Kind::kTuple:
      return std::equal(left.items().begin(), left.items().end(), right.items().begin(),
                        right.items().end(),
                        [&](const Value& a, const Value& b) { return equal(runtime, a, b); });
    case Kind::kDict:
      return same_mapping(runtime, left.at<const Dict>(), right.at<const Dict>());
    case Kind::kRange:
      return equal_ranges(left.at<const Range>(), right.at<const Range>());
    case Kind::kNamespace:
      return &left.at<Namespace>() == &right.at<Namespace>();
    default:
      throw bad_input("comparison", "values that can be compared here",
                      std::string(type_name(left)));
  }
}

bool less(Runtime& runtime, const Value& left, const Value& right) {
  runtime.step();
  if (left.is_number() && right.is_number()) {
    return compare_numbers(left, right) == std::partial_ordering::less;
  }
  if (left.is(Kind::kString) && right.is(Kind::kString)) {
    // The order of UTF-8 is that of its code points.
    runtime.read(std::min(left.text().size(), right.text().size()));
    return left.text() < right.text();
  }
  if (left.is_sequence() && right.kind() == left.kind()) {
    const Items &a = left.items(), &b = right.items();
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      if (!equal(runtime, a[i], b[i])) return less(runtime, a[i], b[i]);
    }
    return a.size() < b.size();
  }
  for (const Value* side : {&left, &right}) {
    if (side->is(Kind::kUndefined)) refuse_value("comparison", "a defined value", *side);
  }
  throw bad_input("comparison", "values with an order",
                  std::string(type_name(left)) + " and " + std::string(type_name(right)));
}

bool compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right) {
  const bool numbers = left.is_number() && right.is_number();
  switch (op) {
    case CompareOp::kEqual:
      return equal(runtime, left, right);
    case CompareOp::kNotEqual:
      return !equal(runtime, left, right);
    case CompareOp::kLess:
      return less(runtime, left, right);
    case CompareOp::kGreater:
      return less(runtime, right, left);
    // Nothing is less, equal or greater than NaN.
    case CompareOp::kLessEqual:
      return numbers ? compare_numbers(left, right) <= 0 : !less(runtime, right, left);
    case CompareOp::kGreaterEqual:
      return numbers ? compare_numbers(left, right) >= 0 : !less(runtime, left, right);
    case CompareOp::kIn:
      return contains(runtime, right, left);
    case CompareOp::kNotIn:
      return !contains(runtime, right, left);
  }
  throw internal_error("chat template: an unknown comparison");
}

std::string hash_key(Runtime& runtime, const Value& key) {
  runtime.step();
  switch (key.kind()) {
    case Kind::kUndefined:  // as jinja2's, which are all equal
      return "u";
    case Kind::kNone:
      return "0";
    case Kind::kBool:
    case Kind::kInt:
      return "n" + std::to_string(key.integer());
    case Kind::kFloat: {
      const double number = key.as<double>();
      // 2.0 and 2 are one key.
      if (std::trunc(number) == number && std::abs(number) < 9e18) {
        return "n" + std::to_string(static_cast<int64_t>(number));
      }
      return "f" + std::to_string(std::bit_cast<int64_t>(number));
    }
    case Kind::kString:
      runtime.read(key.text().size());
      return "s" + std::string(key.text());
    case Kind::kTuple: {
      std::string text = "t";
      for (const Value& item : key.items()) {
        const std::string part = hash_key(runtime, item);
        runtime.expect_text(text.size() + part.size() + 24);
        text += std::to_string(part.size()) + ":" + part;
      }
      return text;
    }
    default:
      refuse_value("key of a dict", "a value that can be hashed", key);
  }
}

const Value* find(Runtime& runtime, const Dict& dict, const Value& key) {
  const auto found = dict.places.find(hash_key(runtime, key));
  return found == dict.places.end() ? nullptr : &dict.entries[found->second].second;
}

const Value* find(const Dict& dict, std::string_view key) {
  const auto found = dict.places.find("s" + std::string(key));
  return found == dict.places.end() ? nullptr : &dict.entries[found->second].second;
}

Items elements(Runtime& runtime, const Value& value) {
  Items items;
  switch (value.kind()) {
    case Kind::kUndefined:
      return items;
    case Kind::kString:
      runtime.expect_items(static_cast<uint64_t>(count_points(value.text())));
      for (const char32_t point : decode(value.text())) {
        items.push_back(runtime.text(encode({&point, 1})));
      }
      return items;
    case Kind::kList:
    case Kind::kTuple:
      items = value.items();
      break;
    case Kind::kDict:
      for (const auto& [key, held] : value.at<const Dict>().entries) items.push_back(key);
      break;
    case Kind::kView: {
      const View& view = value.at<const View>();
      for (const auto& [key, held] : view.dict->entries) {
        if (view.what == View::What::kItems) {
          items.push_back(runtime.tuple({key, held}));
        } else {
          items.push_back(view.what == View::What::kKeys ? key : held);
        }
      }
      break;
    }
    case Kind::kRange: {
      const Range& range = value.at<const Range>();
      runtime.expect_items(static_cast<uint64_t>(range.size()));
      for (int64_t i = 0; i < range.size(); ++i) items.emplace_back(range.start + i * range.step);
      break;
    }
    case Kind::kIterator: {
      auto& iterator = value.at<Iterator>();
      items.assign(iterator.items.begin() + static_cast<std::ptrdiff_t>(iterator.next),
                   iterator.items.end());
      iterator.next = iterator.items.size();
      break;
    }
    default:
      refuse_value("loop", "a value with elements", value);
  }
  runtime.step(static_cast<int64_t>(items.size()));
  return items;
}

Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
            const Value& step) {
  const auto bound = [](const Value& value, int64_t fallback) {
    if (value.is(Kind::kNone)) return fallback;
    if (!is_integral(value)) refuse_value("slice", "integers", value);
    return value.integer();
  };
  const bool is_text = object.is(Kind::kString);
  if (!is_text && !object.is_sequence()) {
    refuse_value("slice", "a string, a list or a tuple", object);
  }
  if (is_text) runtime.walk(object.text().size());
  const std::u32string points = is_text ? decode(object.text()) : std::u32string();
  const Items all = is_text ? Items() : elements(runtime, object);
  const auto size = static_cast<int64_t>(is_text ? points.size() : all.size());
  const int64_t by = bound(step, 1);
  if (by == 0) throw bad_input("slice", "a step", "0");
  // As PySlice_AdjustIndices.
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
  const auto place = [&](const Value& value, int64_t fallback) {
    int64_t at = bound(value, fallback);
    if (value.is(Kind::kNone)) return at;
    if (at < 0) at += size;
    return std::clamp(at, low, high);
  };
  const int64_t from = place(start, by > 0 ? low : high);
  const int64_t to = place(stop, by > 0 ? high : low);
  std::u32string text;
  Items items;
  for (int64_t at = from; by > 0 ? at < to : at > to;) {
    is_text ? text.push_back(points[static_cast<size_t>(at)])
            : items.push_back(all[static_cast<size_t>(at)]);
    // A huge step ends the loop instead of passing the largest integer.
    if (by > 0 ? by >= to - at : by <= to - at) break;
    at += by;
  }
  if (is_text) return runtime.text(encode(text), object.is_markup());
  return object.is(Kind::kTuple) ? runtime.tuple(std::move(items)) : runtime.list(std::move(items));
}

std::string escape_markup(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '"':
        result += "&#34;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace mainstem::chat
