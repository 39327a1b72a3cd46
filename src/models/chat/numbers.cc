#include "models/chat/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "models/chat/python_text.h"

namespace mainstem::chat {
namespace {

[[noreturn]] void refuse_size() { throw bad_input("integer", "at most 64 bits", "more"); }

[[noreturn]] void refuse_zero() { throw bad_input("division", "a divisor", "0"); }

int64_t floor_divide(int64_t left, int64_t right) {
  if (right == 0) refuse_zero();
  if (left == std::numeric_limits<int64_t>::min() && right == -1) refuse_size();
  const int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

int64_t floor_modulo(int64_t left, int64_t right) {
  if (right == 0) refuse_zero();
  if (right == -1) return 0;
  const int64_t rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

double float_modulo(double left, double right) {
  if (right == 0) refuse_zero();
  double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  if ((rest < 0) != (right < 0)) rest += right;
  return rest;
}

/// As CPython's float_floor_div.
double float_floor_divide(double left, double right) {
  const double rest = float_modulo(left, right);
  const double quotient = (left - rest) / right;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double low = std::floor(quotient);
  return quotient - low > 0.5 ? low + 1 : low;
}

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) refuse_zero();
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  // At most 63 rounds for bases that grow.
  if (base == 0 || base == 1) return Value(exponent == 0 ? int64_t{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? int64_t{1} : int64_t{-1});
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) refuse_size();
  }
  return Value(result);
}

Value power(double base, double exponent) {
  if (base == 0 && exponent < 0) refuse_zero();
  const double result = std::pow(base, exponent);
  if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent)) {
    throw bad_input("operator **", "a real result", "a complex one");
  }
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    throw bad_input("operator **", "a result that is a float", "a larger one");
  }
  return Value(result);
}

std::partial_ordering compare_mixed(int64_t left, double right) {
  if (std::isnan(right)) return std::partial_ordering::unordered;
  if (right >= 0x1p63) return std::partial_ordering::less;
  if (right < -0x1p63) return std::partial_ordering::greater;
  const auto whole = static_cast<int64_t>(right);
  if (left != whole)
    return left < whole ? std::partial_ordering::less : std::partial_ordering::greater;
  return 0.0 <=> (right - static_cast<double>(whole));
}

/// Digits of a number with single underscores between them taken out; false where one is misplaced.
bool without_underscores(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto is_digit = [&](size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return false;
  }
  return true;
}

}  // namespace

Value apply_integers(BinaryOp op, int64_t left, int64_t right) {
  int64_t result = 0;
  bool too_large = false;
  switch (op) {
    case BinaryOp::kAdd:
      too_large = __builtin_add_overflow(left, right, &result);
      break;
    case BinaryOp::kSubtract:
      too_large = __builtin_sub_overflow(left, right, &result);
      break;
    case BinaryOp::kMultiply:
      too_large = __builtin_mul_overflow(left, right, &result);
      break;
    case BinaryOp::kDivide:
      if (right == 0) refuse_zero();
      return Value(static_cast<double>(left) / static_cast<double>(right));
    case BinaryOp::kFloorDivide:
      result = floor_divide(left, right);
      break;
    case BinaryOp::kModulo:
      result = floor_modulo(left, right);
      break;
    case BinaryOp::kPower:
      return power(left, right);
  }
  if (too_large) refuse_size();
  return Value(result);
}

Value apply_floats(BinaryOp op, double left, double right) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value(left + right);
    case BinaryOp::kSubtract:
      return Value(left - right);
    case BinaryOp::kMultiply:
      return Value(left * right);
    case BinaryOp::kDivide:
      if (right == 0) refuse_zero();
      return Value(left / right);
    case BinaryOp::kFloorDivide:
      if (right == 0) refuse_zero();
      return Value(float_floor_divide(left, right));
    case BinaryOp::kModulo:
      return Value(float_modulo(left, right));
    case BinaryOp::kPower:
      return power(left, right);
  }
  throw internal_error("chat template: an unknown operator");
}

std::partial_ordering compare_numbers(const Value& left, const Value& right) {
  const bool left_float = left.is(Kind::kFloat), right_float = right.is(Kind::kFloat);
  if (left_float && right_float) return left.number() <=> right.number();
  if (right_float) return compare_mixed(left.integer(), right.number());
  if (left_float) return 0 <=> compare_mixed(right.integer(), left.number());
  return left.integer() <=> right.integer();
}

int64_t to_integer(double number) {
  if (!(number >= -0x1p63 && number < 0x1p63)) refuse_size();
  return static_cast<int64_t>(number);
}

double round_half_even(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 320) return number;
  if (digits < -320) return std::copysign(0.0, number);
  double result = 0;
  if (digits >= 0) {
    // The decimal that is nearest, as CPython: exact digits, ties to even.
    const std::string text = fmt::format("{:.{}f}", number, static_cast<int>(digits));
    std::from_chars(text.data(), text.data() + text.size(), result);
    return result;
  }
  // Digits before the point: round the shortest form in units of a power of ten.
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  result = std::nearbyint(number / unit) * unit;
  return std::isfinite(result) ? result : number;
}

bool parse_integer(std::string_view text, int64_t base, int64_t& value) {
  text = strip_space(text, Ends::kBoth);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const auto prefix_base = [&]() -> int64_t {
    if (text.size() < 2 || text[0] != '0') return 0;
    switch (text[1] | 0x20) {
      case 'x':
        return 16;
      case 'o':
        return 8;
      case 'b':
        return 2;
      default:
        return 0;
    }
  }();
  if (base == 0 && prefix_base == 0) {
    base = 10;
    // "010" is no integer, "000" is.
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != text.npos)
      return false;
  } else if (prefix_base != 0 && (base == 0 || base == prefix_base)) {
    base = prefix_base;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  }
  std::string digits = negative ? "-" : "";
  if (!without_underscores(text, digits)) return false;
  if (digits.empty() || text.empty() || text[0] == '-') return false;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (end != digits.data() + digits.size() || error == std::errc::invalid_argument) return false;
  if (error == std::errc::result_out_of_range) refuse_size();
  return true;
}

bool parse_float(std::string_view text, double& value) {
  std::string digits;
  if (!without_underscores(strip_space(text, Ends::kBoth), digits)) return false;
  std::string_view rest = digits;
  if (rest.starts_with('+')) {
    rest.remove_prefix(1);
    if (rest.starts_with('-')) return false;
  }
  // from_chars takes nan(…), which Python does not.
  if (rest.find('(') != rest.npos) return false;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size() || error == std::errc::invalid_argument) return false;
  if (error == std::errc::result_out_of_range) {
    const bool small = rest.find("e-") != rest.npos || rest.find("E-") != rest.npos;
    value = small ? 0.0 : std::numeric_limits<double>::infinity();
    if (rest.starts_with('-')) value = -value;
  }
  return true;
}

}  // namespace mainstem::chat
