#include "diagnose/name_text.h"

#include <algorithm>
#include <charconv>

namespace mainstem {

std::string_view last_component(std::string_view name) {
  return name.substr(name.rfind('.') + 1);  // npos + 1 is 0
}

std::string_view parent(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool has_number(std::string_view name) {
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    if (is_number(name.substr(0, dot))) return true;
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return false;
}

std::optional<int64_t> number_behind(std::string_view name, std::string_view word) {
  const std::string_view last = last_component(name);
  if (!is_number(last) || last_component(parent(name)) != word) return std::nullopt;
  int64_t number = 0;
  std::from_chars(last.data(), last.data() + last.size(), number);
  return number;
}

}  // namespace mainstem
