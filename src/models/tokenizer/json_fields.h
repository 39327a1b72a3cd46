#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/text.h"
#include "mainstem/error.h"
#include "models/tokenizer/unicode.h"

// Typed look-up in configuration objects. `where` names the object in messages.

namespace mainstem::tokenizer {

/// The member, or nullptr where it is absent or null.
inline const nlohmann::json* member(const nlohmann::json& object, const char* key,
                                    const std::string& where) {
  if (!object.is_object()) throw bad_input(where, "an object", object.type_name());
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

inline bool bool_or(const nlohmann::json& object, const char* key, bool fallback,
                    const std::string& where) {
  const nlohmann::json* value = member(object, key, where);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) throw bad_input(where + "." + key, "true or false", value->type_name());
  return value->get<bool>();
}

inline std::string need_text(const nlohmann::json& object, const char* key,
                             const std::string& where) {
  const nlohmann::json* value = member(object, key, where);
  if (value == nullptr || !value->is_string()) {
    throw bad_input(where + "." + key, "a string", value == nullptr ? "none" : value->type_name());
  }
  return value->get<std::string>();
}

inline std::string text_or(const nlohmann::json& object, const char* key, const char* fallback,
                           const std::string& where) {
  return member(object, key, where) == nullptr ? fallback : need_text(object, key, where);
}

inline int64_t int_or(const nlohmann::json& object, const char* key, int64_t fallback,
                      const std::string& where) {
  const nlohmann::json* value = member(object, key, where);
  if (value == nullptr) return fallback;
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() ||
                     value->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (!fits) throw bad_input(where + "." + key, "an integer", quote(value->dump(), 40));
  return value->get<int64_t>();
}

/// A text of one code point.
inline std::string need_character(const nlohmann::json& object, const char* key,
                                  const std::string& where) {
  std::string text = need_text(object, key, where);
  if (text.empty() || decode_utf8(text).length != text.size()) {
    throw bad_input(where + "." + key, "one character", quote(text, 40));
  }
  return text;
}

inline const nlohmann::json& need_array(const nlohmann::json& object, const char* key,
                                        const std::string& where) {
  const nlohmann::json* value = member(object, key, where);
  if (value == nullptr || !value->is_array()) {
    throw bad_input(where + "." + key, "an array", value == nullptr ? "none" : value->type_name());
  }
  return *value;
}

/// Throws for a key that is not in the list: it might change ids.
template <size_t N>
void refuse_other_keys(const nlohmann::json& object, const char* const (&known)[N],
                       const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    bool found = false;
    for (const char* name : known) found = found || key == name;
    if (!found) throw bad_input(where, "no key but the known ones", quote(key));
  }
}

}  // namespace mainstem::tokenizer
