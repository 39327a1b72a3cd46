#include "io/dump/printed_array.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

// Index, value and error, with what growing vectors hold twice.
constexpr uint64_t kValueBytes = 3 * (sizeof(int64_t) + sizeof(double) + sizeof(float));

bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '-' || c == '.';
}

// Half a unit of the last digit: 5e-5 for "1.2345", 5e-6 for "1.2345e-01". A whole number, "3" or
// "3.", was printed so because it is one.
float rounding_of(std::string_view token) {
  const size_t exponent_at = token.find_first_of("eE");
  const std::string_view mantissa = token.substr(0, exponent_at);
  const size_t point = mantissa.find('.');
  const size_t decimals = point == mantissa.npos ? 0 : mantissa.size() - point - 1;
  if (decimals == 0) return 0;
  int exponent = 0;
  if (exponent_at != token.npos) {
    std::string_view digits = token.substr(exponent_at + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  }
  return static_cast<float>(0.5 * std::pow(10.0, exponent - static_cast<double>(decimals)));
}

}  // namespace

std::string line_of(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  return "line " + std::to_string(1 + std::count(before.begin(), before.end(), '\n'));
}

void PrintedArrayParser::fail(const std::string& expected) const {
  const std::string_view rest = text_.substr(at_, 40);
  throw bad_input("printed values", expected,
                  rest.empty() ? "the end of the text" : quote(rest.substr(0, rest.find('\n'))))
      .in(line_of(text_, at_));
}

void PrintedArrayParser::skip_spaces() {
  while (at_ < text_.size() && std::string_view(" \n\t\r").find(text_[at_]) != std::string::npos) {
    ++at_;
  }
}

bool PrintedArrayParser::accept(std::string_view word) {
  skip_spaces();
  if (!text_.substr(at_).starts_with(word)) return false;
  at_ += word.size();
  return true;
}

void PrintedArrayParser::parse(std::span<const int64_t> shape, int64_t first, PrintedValues& out) {
  const size_t begin = out.indices.size();
  if (shape.empty()) {
    parse_number(out);
  } else {
    parse_list(shape, out);
  }
  for (size_t i = begin; i < out.indices.size(); ++i) out.indices[i] += first;
}

void PrintedArrayParser::parse_list(std::span<const int64_t> shape, PrintedValues& out) {
  if (!accept("[")) fail("'['");
  const auto inner = shape.subspan(1);
  const int64_t dim = shape[0], stride = element_count(inner);
  const size_t begin = out.indices.size();
  int64_t items = 0, before_gap = -1;
  size_t gap_begin = 0;
  while (!accept("]")) {
    if (accept("...")) {
      if (before_gap >= 0) fail("one \"...\" in a list");
      before_gap = items;
      gap_begin = out.indices.size();
    } else {
      if (items == dim) fail("at most " + std::to_string(dim) + " items");
      // Items behind the gap are counted as if it were not there, and moved below.
      parse(inner, items * stride, out);
      ++items;
    }
    if (accept(",")) continue;
    if (!accept("]")) fail("',' or ']'");
    break;
  }
  const bool right = before_gap < 0 ? items == dim : items < dim;
  if (!right) {
    throw bad_input("printed values",
                    before_gap < 0 ? std::to_string(dim) + " items"
                                   : "fewer than " + std::to_string(dim) + " items around \"...\"",
                    std::to_string(items))
        .in(line_of(text_, at_));
  }
  if (before_gap < 0) return;
  const int64_t moved = (dim - items) * stride;
  for (size_t i = std::max(begin, gap_begin); i < out.indices.size(); ++i) out.indices[i] += moved;
}

void PrintedArrayParser::parse_number(PrintedValues& out) {
  skip_spaces();
  size_t end = at_;
  while (end < text_.size() && is_number_char(text_[end])) ++end;
  const std::string_view token = text_.substr(at_, end - at_);
  double value = 0;
  if (token == "True" || token == "False") {
    value = token == "True" ? 1 : 0;
  } else {
    const auto [stop, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error != std::errc() || stop != token.data() + token.size()) fail("a number");
  }
  // What Windows appends to some of them.
  if (std::isnan(value) && text_.substr(end).starts_with('(')) {
    end = std::min(text_.find(')', end), text_.size() - 1) + 1;
  }
  budget_.charge(kValueBytes, "printed values");
  out.indices.push_back(0);
  out.values.push_back(value);
  out.errors.push_back(std::isfinite(value) ? rounding_of(token) : 0.0F);
  at_ = end;
}

}  // namespace mainstem
