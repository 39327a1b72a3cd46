#include "cli/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/number_text.h"
#include "cli/text.h"

namespace mainstem::cli {
namespace {

template <typename Float>
std::string json_number(Float number) {
  const std::string text = number_text(number);
  return std::isfinite(number) ? text : '"' + text + '"';
}

}  // namespace

void JsonWriter::new_line() {
  text_ += '\n';
  text_.append(levels_.size(), ' ');
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  Level& level = levels_.back();
  if (!level.empty) text_ += level.layout == kLines ? "," : ", ";
  level.empty = false;
  if (level.layout == kLines) new_line();
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  separate();
  text_ += text;
  return *this;
}

JsonWriter& JsonWriter::begin(char bracket, Layout layout) {
  separate();
  text_ += bracket;
  levels_.push_back({layout});
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) {
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.layout == kLines && !level.empty) new_line();
  text_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

void JsonWriter::quote(std::string_view text) {
  text_ += '"';
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '"':
        text_ += "\\\"";
        break;
      case '\\':
        text_ += "\\\\";
        break;
      case '\n':
        text_ += "\\n";
        break;
      case '\r':
        text_ += "\\r";
        break;
      case '\t':
        text_ += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          text_ += fmt::format("\\u{:04x}", static_cast<int>(c));
        } else {
          text_ += c;
        }
    }
  }
  text_ += '"';
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) { return raw(json_number(number)); }
JsonWriter& JsonWriter::value(float number) { return raw(json_number(number)); }

}  // namespace mainstem::cli
