#include <cmath>

#include "models/chat/arguments.h"
#include "models/chat/filters.h"
#include "models/chat/numbers.h"
#include "models/chat/operators.h"
#include "models/chat/python_text.h"

namespace mainstem::chat {
namespace {

Value absolute(Runtime&, const Value& value, const Arguments& arguments) {
  expect_positional("filter 'abs'", arguments, 0, 0);
  if (value.is(Kind::kFloat)) return Value(std::abs(value.as<double>()));
  if (!value.is_number()) refuse_value("filter 'abs'", "a number", value);
  return value.integer() < 0 ? negate(value) : Value(value.integer());
}

Value round_integer(int64_t value, int64_t digits) {
  if (digits >= 0) return Value(value);
  if (digits < -18) return Value(int64_t{0});
  int64_t unit = 1;
  for (int64_t i = digits; i < 0; ++i) unit *= 10;
  const int64_t rest = apply_integers(BinaryOp::kModulo, value, unit).integer();
  const int64_t low = value - rest;
  const bool up = rest > unit - rest || (rest == unit - rest && (low / unit) % 2 != 0);
  return up ? apply_integers(BinaryOp::kAdd, low, unit) : Value(low);
}

Value round(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'round'", arguments, {"precision", "method"});
  const int64_t digits = bound.integer(0, 0);
  const std::string_view method = bound.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") {
    bound.refuse(1, "common, ceil or floor");
  }
  if (!value.is_number()) refuse_value("filter 'round'", "a number", value);
  if (method == "common") {
    if (value.is(Kind::kFloat)) return Value(round_half_even(value.as<double>(), digits));
    return round_integer(value.integer(), digits);
  }
  const Value scale = apply(runtime, BinaryOp::kPower, Value(int64_t{10}), Value(digits));
  const Value scaled = apply(runtime, BinaryOp::kMultiply, value, scale);
  const double whole = method == "ceil" ? std::ceil(scaled.number()) : std::floor(scaled.number());
  const Value integer = scaled.is(Kind::kFloat) ? Value(to_integer(whole)) : scaled;
  return apply(runtime, BinaryOp::kDivide, integer, scale);
}

Value to_int(Runtime&, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'int'", arguments, {"default", "base"});
  Value fallback = bound.given(0) ? bound[0] : Value(int64_t{0});
  switch (value.kind()) {
    case Kind::kUndefined:
      refuse_value("filter 'int'", "a defined value", value);
    case Kind::kBool:
    case Kind::kInt:
      return Value(value.integer());
    case Kind::kFloat:
      // int(nan) is a ValueError in Python, and so is the second try.
      if (std::isnan(value.as<double>())) return fallback;
      return Value(to_integer(std::trunc(value.as<double>())));
    case Kind::kString: {
      const int64_t base = bound.integer(1, 10);
      if (base != 0 && (base < 2 || base > 36)) return fallback;
      int64_t whole = 0;
      if (parse_integer(value.text(), base, whole)) return Value(whole);
      double number = 0;
      if (!parse_float(value.text(), number) || !std::isfinite(number)) return fallback;
      return Value(to_integer(std::trunc(number)));
    }
    default:
      return fallback;
  }
}

Value to_float(Runtime&, const Value& value, const Arguments& arguments) {
  const Bound bound("filter 'float'", arguments, {"default"});
  double number = 0;
  if (value.is(Kind::kUndefined)) refuse_value("filter 'float'", "a defined value", value);
  if (value.is_number()) return Value(value.number());
  if (value.is(Kind::kString) && parse_float(value.text(), number)) return Value(number);
  return bound.given(0) ? bound[0] : Value(0.0);
}

constexpr FilterEntry kFilters[] = {
    {"abs", absolute},
    {"float", to_float},
    {"int", to_int},
    {"round", round},
};

}  // namespace

std::span<const FilterEntry> number_filters() { return kFilters; }

}  // namespace mainstem::chat
