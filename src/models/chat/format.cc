#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "io/text.h"
#include "models/chat/numbers.h"
#include "models/chat/operators.h"
#include "models/chat/python_text.h"

namespace mainstem::chat {
namespace {

/// "%-5.2f": what stands between % and the letter.
struct Field {
  bool left = false, zero = false, plus = false, space = false, alternate = false;
  size_t width = 0;
  int precision = -1;
};

class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, std::string_view format, const Value& arguments)
      : runtime_(runtime), rest_(format), arguments_(arguments) {}

  std::string run() {
    while (!rest_.empty()) {
      const size_t mark = std::min(rest_.find('%'), rest_.size());
      put(rest_.substr(0, mark));
      rest_.remove_prefix(mark);
      if (!rest_.empty()) field();
    }
    const bool used = arguments_.is(Kind::kTuple) ? next_ == arguments_.items().size()
                                                  : next_ == 1 || named_ || has_members();
    if (!used) throw bad_input("format %", "no more arguments than fields", "more");
    return std::move(text_);
  }

 private:
  /// What can be indexed may be left unread.
  bool has_members() const {
    return arguments_.is(Kind::kDict) || arguments_.is(Kind::kList) ||
           arguments_.is(Kind::kRange) || arguments_.is(Kind::kUndefined);
  }
  void put(std::string_view part) {
    runtime_.read(part.size());
    runtime_.expect_text(text_.size() + part.size());
    text_ += part;
  }
  char take() {
    if (rest_.empty()) throw bad_input("format %", "a whole field", "the end of the text");
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }
  size_t take_number() {
    size_t number = 0;
    while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9') {
      number = number * 10 + static_cast<size_t>(take() - '0');
      runtime_.expect_text(number);
    }
    return number;
  }
  Value argument(const std::optional<std::string>& name) {
    if (name) {
      if (!arguments_.is(Kind::kDict)) refuse_value("format %(name)", "a dict", arguments_);
      named_ = true;
      const Value* found = find(arguments_.at<const Dict>(), *name);
      if (found == nullptr) throw bad_input("format %", "a key " + quote(*name), "none");
      return *found;
    }
    const bool many = arguments_.is(Kind::kTuple);
    if (next_ >= (many ? arguments_.items().size() : 1)) {
      throw bad_input("format %", "an argument for each field", "fewer");
    }
    return many ? arguments_.items()[next_++] : (++next_, arguments_);
  }

  void field() {
    take();
    std::optional<std::string> name;
    if (rest_.starts_with('(')) {
      const size_t end = rest_.find(')');
      if (end == rest_.npos) throw bad_input("format %", "a closing parenthesis", "none");
      name = std::string(rest_.substr(1, end - 1));
      rest_.remove_prefix(end + 1);
    }
    Field field;
    for (; !rest_.empty() && std::string_view("-0+ #").find(rest_[0]) != std::string_view::npos;) {
      const char flag = take();
      (flag == '-'   ? field.left
       : flag == '0' ? field.zero
       : flag == '+' ? field.plus
       : flag == ' ' ? field.space
                     : field.alternate) = true;
    }
    field.width = take_number();
    if (rest_.starts_with('.')) {
      take();
      field.precision = static_cast<int>(std::min<size_t>(take_number(), 1 << 20));
    }
    const char letter = take();
    if (letter == '%') return put("%");
    const Value value = argument(name);
    switch (letter) {
      case 's':
        return pad(field, cut(field, to_text(runtime_, value)));
      case 'r':
        return pad(field, cut(field, repr(runtime_, value)));
      case 'd':
      case 'i':
      case 'u':
        return integer(field, value);
      case 'f':
      case 'F':
        return floating(field, value);
      default:
        throw bad_input("format %", "the letters s, r, d, i, u, f or %",
                        quote(std::string_view(&letter, 1)));
    }
  }

  static std::string cut(const Field& field, std::string text) {
    if (field.precision < 0) return text;
    return encode(decode(text).substr(0, static_cast<size_t>(field.precision)));
  }
  void pad(const Field& field, const std::string& text) {
    const auto length = static_cast<size_t>(count_points(text));
    const std::string blanks(field.width > length ? field.width - length : 0, ' ');
    put(field.left ? text + blanks : blanks + text);
  }
  void number(const Field& field, bool negative, std::string digits) {
    const std::string sign = negative ? "-" : field.plus ? "+" : field.space ? " " : "";
    if (field.zero && !field.left && field.width > sign.size() + digits.size()) {
      digits.insert(0, field.width - sign.size() - digits.size(), '0');
    }
    pad(field, sign + digits);
  }
  void integer(const Field& field, const Value& value) {
    if (!value.is_number()) refuse_value("format %d", "a number", value);
    const int64_t whole =
        value.is(Kind::kFloat) ? to_integer(std::trunc(value.number())) : value.integer();
    std::string digits = std::to_string(whole);
    if (whole < 0) digits.erase(0, 1);
    if (field.precision > static_cast<int>(digits.size())) {
      digits.insert(0, static_cast<size_t>(field.precision) - digits.size(), '0');
    }
    number(field, whole < 0, std::move(digits));
  }
  void floating(const Field& field, const Value& value) {
    if (!value.is_number()) refuse_value("format %f", "a number", value);
    const double shown = value.number();
    const int precision = field.precision < 0 ? 6 : field.precision;
    if (!std::isfinite(shown)) {
      Field plain = field;
      plain.zero = false;
      return number(plain, shown < 0, std::isnan(shown) ? "nan" : "inf");
    }
    std::string digits = fmt::format("{:.{}f}", std::abs(shown), precision);
    if (field.alternate && precision == 0) digits += '.';
    number(field, std::signbit(shown), std::move(digits));
  }

  Runtime& runtime_;
  std::string_view rest_;
  const Value& arguments_;
  std::string text_;
  size_t next_ = 0;
  bool named_ = false;
};

}  // namespace

std::string format_percent(Runtime& runtime, std::string_view format, const Value& arguments) {
  return PercentFormat(runtime, format, arguments).run();
}

}  // namespace mainstem::chat
