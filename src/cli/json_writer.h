#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem::cli {

/// Writes one JSON document. A float is written as the shortest decimal that restores the float,
/// a double as that of the double; what is not finite is the string "nan", "inf" or "-inf", an
/// empty optional null.
///
///     JsonWriter json;
///     json.begin_object(JsonWriter::kLines).field("seed", 42).end_object();
///     print(json.text());
class JsonWriter {
 public:
  enum Layout { kInline, kLines };  ///< kLines: every element on a line of its own

  JsonWriter& begin_object(Layout layout = kInline) { return begin('{', layout); }
  JsonWriter& end_object() { return end('}'); }
  JsonWriter& begin_array(Layout layout = kInline) { return begin('[', layout); }
  JsonWriter& end_array() { return end(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(float number);
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& value(std::integral auto number) { return raw(std::to_string(number)); }
  JsonWriter& null() { return raw("null"); }
  template <typename T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }
  template <typename T>
  JsonWriter& value(std::span<const T> list) {
    begin_array();
    for (const T& each : list) value(each);
    return end_array();
  }
  template <typename T>
  JsonWriter& value(const std::vector<T>& list) {
    return value(std::span<const T>(list));
  }
  template <typename T>
  JsonWriter& field(std::string_view name, const T& what) {
    return key(name).value(what);
  }

  /// The document with a newline at its end.
  std::string text() const { return text_ + "\n"; }

 private:
  struct Level {
    Layout layout;
    bool empty = true;
  };
  JsonWriter& begin(char bracket, Layout layout);
  JsonWriter& end(char bracket);
  JsonWriter& raw(std::string_view text);
  void separate();
  void quote(std::string_view text);
  void new_line();

  std::string text_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace mainstem::cli
