#include <algorithm>
#include <iterator>

#include "models/chat/arguments.h"
#include "models/chat/ast.h"
#include "models/chat/numbers.h"
#include "models/chat/python_text.h"

// What stands behind "is".

namespace mainstem::chat {
namespace {

template <Kind Wanted>
bool is_kind(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("test", arguments, 0, 0);
  return value.is(Wanted);
}

bool is_defined(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("test 'defined'", arguments, 0, 0);
  return !value.is(Kind::kUndefined);
}

bool is_number(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("test 'number'", arguments, 0, 0);
  return value.is_number();
}

template <bool Wanted>
bool is_bool(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("test", arguments, 0, 0);
  return value.is(Kind::kBool) && value.as<bool>() == Wanted;
}

bool is_iterable(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("test 'iterable'", arguments, 0, 0);
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kMacro:
      return false;
    default:
      return true;
  }
}

bool is_sequence(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("test 'sequence'", arguments, 0, 0);
  // As jinja2: whatever has a length and can be indexed.
  return value.is_sequence() || value.is(Kind::kString) || value.is(Kind::kDict) ||
         value.is(Kind::kRange) || value.is(Kind::kUndefined);
}

bool is_callable(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("test 'callable'", arguments, 0, 0);
  return value.is(Kind::kFunction) || value.is(Kind::kMethod) || value.is(Kind::kMacro) ||
         value.is(Kind::kUndefined);
}

bool is_same(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("test 'sameas'", arguments, 1, 1);
  const Value& other = arguments.positional[0];
  if (value.kind() != other.kind()) return false;
  if (value.is(Kind::kNone) || value.is(Kind::kBool) || value.is(Kind::kNamespace)) {
    return equal(runtime, value, other);
  }
  throw bad_input("test 'sameas'", "none, a boolean or a namespace: others have no identity here",
                  std::string(type_name(value)));
}

template <CompareOp Op>
bool compares(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("test", arguments, 1, 1);
  return compare(runtime, Op, value, arguments.positional[0]);
}

bool has_remainder(Runtime& runtime, const Value& value, const Value& divisor,
                   const Value& wanted) {
  return equal(runtime, apply(runtime, BinaryOp::kModulo, value, divisor), wanted);
}

template <int64_t Remainder>
bool is_parity(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("test", arguments, 0, 0);
  return has_remainder(runtime, value, Value(int64_t{2}), Value(Remainder));
}

bool is_divisible(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("test 'divisibleby'", arguments, {"num"}, 1);
  return has_remainder(runtime, value, bound[0], Value(int64_t{0}));
}

template <std::string (*Change)(std::string_view)>
bool has_case(Runtime& runtime, const Value& value, const Arguments& arguments) {
  expect_positional("test", arguments, 0, 0);
  const std::string text = to_text(runtime, value);
  runtime.walk(3 * text.size());
  return Change(text) == text && upper(text) != lower(text);
}

bool is_escaped(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("test 'escaped'", arguments, 0, 0);
  return value.is_markup();
}

bool names_filter(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("test 'filter'", arguments, 0, 0);
  return value.is(Kind::kString) && find_filter(value.text()) != nullptr;
}

bool names_test(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("test 'test'", arguments, 0, 0);
  return value.is(Kind::kString) && find_test(value.text()) != nullptr;
}

struct Entry {
  std::string_view name;
  TestFunction function;
};

constexpr Entry kTests[] = {
    {"defined", is_defined},
    {"undefined", is_kind<Kind::kUndefined>},
    {"none", is_kind<Kind::kNone>},
    {"boolean", is_kind<Kind::kBool>},
    {"true", is_bool<true>},
    {"false", is_bool<false>},
    {"string", is_kind<Kind::kString>},
    {"number", is_number},
    {"integer", is_kind<Kind::kInt>},
    {"float", is_kind<Kind::kFloat>},
    {"mapping", is_kind<Kind::kDict>},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"callable", is_callable},
    {"sameas", is_same},
    {"escaped", is_escaped},
    {"filter", names_filter},
    {"test", names_test},
    {"odd", is_parity<1>},
    {"even", is_parity<0>},
    {"divisibleby", is_divisible},
    {"lower", has_case<lower>},
    {"upper", has_case<upper>},
    {"in", compares<CompareOp::kIn>},
    {"==", compares<CompareOp::kEqual>},
    {"eq", compares<CompareOp::kEqual>},
    {"equalto", compares<CompareOp::kEqual>},
    {"!=", compares<CompareOp::kNotEqual>},
    {"ne", compares<CompareOp::kNotEqual>},
    {">", compares<CompareOp::kGreater>},
    {"gt", compares<CompareOp::kGreater>},
    {"greaterthan", compares<CompareOp::kGreater>},
    {">=", compares<CompareOp::kGreaterEqual>},
    {"ge", compares<CompareOp::kGreaterEqual>},
    {"<", compares<CompareOp::kLess>},
    {"lt", compares<CompareOp::kLess>},
    {"lessthan", compares<CompareOp::kLess>},
    {"<=", compares<CompareOp::kLessEqual>},
    {"le", compares<CompareOp::kLessEqual>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto found = std::find_if(std::begin(kTests), std::end(kTests),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == std::end(kTests) ? nullptr : found->function;
}

}  // namespace mainstem::chat
