#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "models/chat/operators.h"
#include "models/chat/value.h"

// Arithmetic of Python's numbers, except that integers end at 64 bits with an Error.

namespace mainstem::chat {

Value apply_integers(BinaryOp op, int64_t left, int64_t right);
Value apply_floats(BinaryOp op, double left, double right);
/// Exact, also between integers and floats.
std::partial_ordering compare_numbers(const Value& left, const Value& right);

/// The largest integer that is not above the number; an Error where it does not fit.
int64_t to_integer(double number);
/// Python's round(number, digits) of a float.
double round_half_even(double number, int64_t digits);

/// int(text, base) and float(text); false where Python raises ValueError.
bool parse_integer(std::string_view text, int64_t base, int64_t& value);
bool parse_float(std::string_view text, double& value);

}  // namespace mainstem::chat
