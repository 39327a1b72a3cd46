#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>

#include "models/chat/runtime.h"
#include "models/chat/value.h"

// Python's operators over values. Whatever Python raises an exception for is an Error.

namespace mainstem::chat {

enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

Value apply(Runtime& runtime, BinaryOp op, const Value& left, const Value& right);
Value negate(const Value& value);
bool compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right);

bool equal(Runtime& runtime, const Value& left, const Value& right);
/// left < right; an Error for what Python cannot order.
bool less(Runtime& runtime, const Value& left, const Value& right);

/// A text that equal keys of a dict share; an Error for what Python cannot hash.
std::string hash_key(Runtime& runtime, const Value& key);
/// Null where the dict has no such key.
const Value* find(Runtime& runtime, const Dict& dict, const Value& key);
const Value* find(const Dict& dict, std::string_view key);

/// object[start:stop:step]; none where one is left out.
Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
            const Value& step);

/// Python's "%" on a string.
std::string format_percent(Runtime& runtime, std::string_view format, const Value& arguments);

/// &<>'" as entities.
std::string escape_markup(std::string_view text);

/// What a loop over a value sees. Reads an iterator to its end.
Items elements(Runtime& runtime, const Value& value);

/// The error of an undefined value that is used, or of another value where `expected` was needed.
[[noreturn]] void refuse_value(const std::string& what, const std::string& expected,
                               const Value& value);

}  // namespace mainstem::chat
