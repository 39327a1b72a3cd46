#include <fmt/format.h>

#include <cmath>

#include "models/chat/merge_sort.h"
#include "models/chat/operators.h"
#include "models/chat/python_text.h"

namespace mainstem::chat {
namespace {

class JsonText {
 public:
  JsonText(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void add(const Value& value) {
    runtime_.step();
    switch (value.kind()) {
      case Kind::kNone:
        put("null");
        break;
      case Kind::kBool:
        put(value.as<bool>() ? "true" : "false");
        break;
      case Kind::kInt:
        put(std::to_string(value.as<int64_t>()));
        break;
      case Kind::kFloat:
        put(number(value.as<double>()));
        break;
      case Kind::kString:
        add_string(value.text());
        break;
      case Kind::kList:
      case Kind::kTuple:
        add_items(value.items());
        break;
      case Kind::kDict:
        add_dict(value.at<const Dict>());
        break;
      default:
        refuse_value("filter 'tojson'", "a value that JSON has", value);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return repr(value);
  }
  void put(std::string_view part) {
    runtime_.read(part.size());
    runtime_.expect_text(text_.size() + part.size());
    text_ += part;
  }
  void new_line() {
    if (!style_.indented) return;
    put("\n");
    for (int i = 0; i < level_; ++i) put(style_.indent);
  }
  void add_string(std::string_view text) {
    put("\"");
    runtime_.walk(text.size());
    for (const char32_t point : decode(text)) add_character(static_cast<uint32_t>(point));
    put("\"");
  }
  void add_character(uint32_t point) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const size_t at = point < 0x80 ? kEscaped.find(static_cast<char>(point)) : kEscaped.npos;
    if (at != kEscaped.npos) {
      text_ += '\\';
      text_ += kLetters[at];
    } else if (point < 0x20 || (style_.ascii && point >= 0x7F && point < 0x10000)) {
      text_ += fmt::format("\\u{:04x}", point);
    } else if (style_.ascii && point >= 0x10000) {
      text_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (point >> 10), 0xDC00 + (point & 0x3FF));
    } else {
      const auto wide = static_cast<char32_t>(point);
      text_ += encode({&wide, 1});
    }
  }
  void add_items(const Items& items) {
    if (items.empty()) return put("[]");
    put("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line();
      add(items[i]);
    }
    --level_;
    new_line();
    put("]");
  }
  void add_key(const Value& key) {
    if (key.is(Kind::kString)) return add_string(key.text());
    if (!key.is(Kind::kNone) && !key.is_number()) {
      refuse_value("filter 'tojson'", "keys that JSON has", key);
    }
    put("\"");
    add(key);
    put("\"");
  }
  void add_dict(const Dict& dict) {
    if (dict.entries.empty()) return put("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      merge_sort(entries,
                 [&](const auto* a, const auto* b) { return less(runtime_, a->first, b->first); });
    }
    put("{");
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line();
      add_key(entries[i]->first);
      put(style_.key_separator);
      add(entries[i]->second);
    }
    --level_;
    new_line();
    put("}");
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string text_;
  int level_ = 0;
};

}  // namespace

std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonText json(runtime, style);
  json.add(value);
  return json.take();
}

}  // namespace mainstem::chat
