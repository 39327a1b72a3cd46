#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "models/chat/numbers.h"
#include "models/chat/operators.h"
#include "models/chat/python_text.h"
#include "models/tokenizer/unicode.h"

namespace mainstem::chat {
namespace {

/// What Python's repr of a string shows as an escape.
bool is_printable(uint32_t point) {
  static const tokenizer::CodePointSet hidden = tokenizer::CodePointSet::categories(
      tokenizer::category_mask("C") | tokenizer::category_mask("Z"));
  return point == ' ' || !hidden.contains(point);
}

class TextWriter {
 public:
  explicit TextWriter(Runtime& runtime) : runtime_(runtime) {}

  void add(const Value& value) {
    runtime_.step();
    switch (value.kind()) {
      case Kind::kUndefined:
        put("Undefined");
        break;
      case Kind::kNone:
        put("None");
        break;
      case Kind::kBool:
        put(value.as<bool>() ? "True" : "False");
        break;
      case Kind::kInt:
        put(std::to_string(value.as<int64_t>()));
        break;
      case Kind::kFloat:
        put(repr(value.as<double>()));
        break;
      case Kind::kString:
        runtime_.walk(value.text().size());
        put(value.is_markup() ? "Markup(" + repr(value.text()) + ")" : repr(value.text()));
        break;
      case Kind::kList:
      case Kind::kTuple:
        add_items(value);
        break;
      case Kind::kDict:
        add_dict(value.at<const Dict>());
        break;
      case Kind::kView:
        add_view(value);
        break;
      case Kind::kRange:
        add_range(value.at<const Range>());
        break;
      case Kind::kLoop:
        put(fmt::format("<LoopContext {}/{}>", value.at<Loop>().index + 1,
                        value.at<Loop>().items.size()));
        break;
      default:
        refuse_value("text of a value", "one that can be printed", value);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void put(std::string_view part) {
    runtime_.read(part.size());
    runtime_.expect_text(text_.size() + part.size());
    text_ += part;
  }
  void add_items(const Value& value) {
    const bool tuple = value.is(Kind::kTuple);
    put(tuple ? "(" : "[");
    for (size_t i = 0; i < value.items().size(); ++i) {
      if (i > 0) put(", ");
      add(value.items()[i]);
    }
    if (tuple && value.items().size() == 1) put(",");
    put(tuple ? ")" : "]");
  }
  void add_dict(const Dict& dict) {
    put("{");
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) put(", ");
      add(dict.entries[i].first);
      put(": ");
      add(dict.entries[i].second);
    }
    put("}");
  }
  void add_view(const Value& value) {
    switch (value.at<const View>().what) {
      case View::What::kItems:
        put("dict_items(");
        break;
      case View::What::kKeys:
        put("dict_keys(");
        break;
      case View::What::kValues:
        put("dict_values(");
        break;
    }
    add(runtime_.list(elements(runtime_, value)));
    put(")");
  }
  void add_range(const Range& range) {
    put(range.step == 1 ? fmt::format("range({}, {})", range.start, range.stop)
                        : fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
  }

  Runtime& runtime_;
  std::string text_;
};

}  // namespace

std::string repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that give the number back; "d.ddde-XX".
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t mark = text.find('e');
  int exponent = 0;
  const char* digits = text.data() + mark + 1 + (text[mark + 1] == '+' ? 1 : 0);
  std::from_chars(digits, end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  std::string fixed(400, '\0');
  const auto stop =
      std::to_chars(fixed.data(), fixed.data() + fixed.size(), value, std::chars_format::fixed).ptr;
  fixed.resize(static_cast<size_t>(stop - fixed.data()));
  return fixed.find('.') == fixed.npos ? fixed + ".0" : fixed;
}

std::string repr(std::string_view text) {
  const bool single = text.find('\'') == text.npos || text.find('"') != text.npos;
  const char mark = single ? '\'' : '"';
  std::string result(1, mark);
  while (!text.empty()) {
    const auto decoded = tokenizer::decode_utf8(text);
    const uint32_t point = decoded.code_point;
    if (point == '\\' || point == static_cast<uint32_t>(mark)) {
      result += '\\';
      result += static_cast<char>(point);
    } else if (point == '\n') {
      result += "\\n";
    } else if (point == '\r') {
      result += "\\r";
    } else if (point == '\t') {
      result += "\\t";
    } else if (is_printable(point)) {
      result += text.substr(0, decoded.length);
    } else if (point < 0x100) {
      result += fmt::format("\\x{:02x}", point);
    } else {
      result += point < 0x10000 ? fmt::format("\\u{:04x}", point) : fmt::format("\\U{:08x}", point);
    }
    text.remove_prefix(decoded.length);
  }
  return result + mark;
}

std::string repr(Runtime& runtime, const Value& value) {
  TextWriter writer(runtime);
  writer.add(value);
  return writer.take();
}

std::string to_text(Runtime& runtime, const Value& value) {
  if (value.is(Kind::kString)) return std::string(value.text());
  if (value.is(Kind::kUndefined)) return {};
  return repr(runtime, value);
}

}  // namespace mainstem::chat
