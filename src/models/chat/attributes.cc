#include <algorithm>
#include <iterator>

#include "io/text.h"
#include "models/chat/interpreter.h"
#include "models/chat/methods.h"

namespace mainstem::chat {
namespace {

// Names that Python's types have. What stands in them but is not supported is an error; without
// the lists it would be taken for a key.
constexpr std::string_view kStringNames[] = {
    "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
    "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
    "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
    "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
    "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
    "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
    "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
    "swapcase",     "title",       "translate", "upper",      "zfill"};
constexpr std::string_view kDictNames[] = {"copy", "fromkeys", "get", "items", "keys", "values"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListNames[] = {"copy", "count", "index"};
constexpr std::string_view kListChanges[] = {"append", "clear",  "extend",  "insert",
                                             "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kTupleNames[] = {"count", "index"};
constexpr std::string_view kNumberNames[] = {
    "as_integer_ratio", "bit_count",  "bit_length", "conjugate", "denominator",
    "fromhex",          "from_bytes", "hex",        "imag",      "is_integer",
    "numerator",        "real",       "to_bytes"};
constexpr std::string_view kViewNames[] = {"isdisjoint", "mapping"};
constexpr std::string_view kRangeNames[] = {"count", "index", "start", "step", "stop"};
constexpr std::string_view kMacroNames[] = {"arguments",     "caller",          "catch_kwargs",
                                            "catch_varargs", "explicit_caller", "name"};

template <size_t N>
bool has(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

[[noreturn]] void unsupported(const Value& object, std::string_view name) {
  throw bad_input("chat template", "what is supported here",
                  std::string(type_name(object)) + "." + std::string(name));
}

Value missing(const Value& object, std::string_view name) {
  return Value::undefined("the " + std::string(type_name(object)) + " has no " + quote(name));
}

Value refused_change(const Value& object, std::string_view name) {
  return Value::undefined("the sandbox allows no changes, and " + std::string(type_name(object)) +
                          "." + std::string(name) + " makes one");
}

Value loop_member(const Loop& loop, const Value& object, std::string_view name) {
  const auto index = static_cast<int64_t>(loop.index);
  const auto size = static_cast<int64_t>(loop.items.size());
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(size - index);
  if (name == "revindex0") return Value(size - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == size);
  if (name == "length") return Value(size);
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") {
    return index > 0 ? loop.items[loop.index - 1] : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < size ? loop.items[loop.index + 1]
                            : Value::undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") unsupported(object, name);
  return missing(object, name);
}

/// A method, or an undefined value where the type has no such name.
Value method_or_missing(Runtime& runtime, const Value& object, std::string_view name,
                        MethodFunction found, bool known, bool changes) {
  if (changes) return refused_change(object, name);
  if (found != nullptr) return runtime.method(object, name, found);
  if (known) unsupported(object, name);
  return missing(object, name);
}

/// The attribute that Python's type has, apart from keys.
Value own_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (name.starts_with('_')) return missing(object, name);
  switch (object.kind()) {
    case Kind::kString:
      return method_or_missing(runtime, object, name, find_string_method(name),
                               has(kStringNames, name), false);
    case Kind::kList:
      return method_or_missing(runtime, object, name, find_list_method(name), has(kListNames, name),
                               has(kListChanges, name));
    case Kind::kTuple:
      return method_or_missing(runtime, object, name,
                               has(kTupleNames, name) ? find_list_method(name) : nullptr,
                               has(kTupleNames, name), false);
    case Kind::kDict:
      return method_or_missing(runtime, object, name, find_dict_method(name), has(kDictNames, name),
                               has(kDictChanges, name));
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      if (has(kNumberNames, name)) unsupported(object, name);
      break;
    case Kind::kView:
      if (has(kViewNames, name)) unsupported(object, name);
      break;
    case Kind::kRange:
      if (has(kRangeNames, name)) unsupported(object, name);
      break;
    case Kind::kMacro:
      if (has(kMacroNames, name)) unsupported(object, name);
      break;
    case Kind::kFunction:
    case Kind::kMethod:
      unsupported(object, name);
    case Kind::kNamespace: {
      const auto& members = object.at<Namespace>().members;
      const auto found = members.find(name);
      if (found != members.end()) return found->second;
      break;
    }
    case Kind::kLoop:
      return loop_member(object.at<Loop>(), object, name);
    default:
      break;
  }
  return missing(object, name);
}

Value element_at(Runtime& runtime, const Value& object, int64_t index) {
  const auto place = [&](size_t size) -> std::optional<size_t> {
    const auto count = static_cast<int64_t>(size);
    if (index < -count || index >= count) return std::nullopt;
    return static_cast<size_t>(index < 0 ? index + count : index);
  };
  if (object.is_sequence()) {
    if (const auto at = place(object.items().size())) return object.items()[*at];
  } else if (object.is(Kind::kRange)) {
    const Range& range = object.at<const Range>();
    if (const auto at = place(static_cast<size_t>(range.size()))) {
      return Value(range.start + static_cast<int64_t>(*at) * range.step);
    }
  } else {
    const Value character =
        slice(runtime, object, Value(index), index == -1 ? Value() : Value(index + 1), Value());
    if (!character.text().empty()) return character;
  }
  return missing(object, std::to_string(index));
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is(Kind::kUndefined)) {
    throw bad_input("attribute " + quote(name), "a defined value", object.why_undefined());
  }
  if (object.is(Kind::kDict) && !has(kDictNames, name) && !has(kDictChanges, name)) {
    // Keys come after what a dict itself has, and names with _ are keys only.
    const Value* found = find(object.at<const Dict>(), name);
    if (found != nullptr) return *found;
  }
  return own_attribute(runtime, object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& index) {
  if (object.is(Kind::kUndefined)) {
    throw bad_input("index", "a defined value", object.why_undefined());
  }
  if (object.is(Kind::kDict)) {
    const bool hashable = !index.is(Kind::kList) && !index.is(Kind::kDict);
    const Value* found = hashable ? find(runtime, object.at<const Dict>(), index) : nullptr;
    if (found != nullptr) return *found;
  } else if (object.is_sequence() || object.is(Kind::kString) || object.is(Kind::kRange)) {
    if (index.is(Kind::kInt) || index.is(Kind::kBool)) {
      return element_at(runtime, object, index.integer());
    }
  }
  if (index.is(Kind::kString)) return own_attribute(runtime, object, index.text());
  return missing(object, std::string(type_name(index)) + " index");
}

}  // namespace mainstem::chat
