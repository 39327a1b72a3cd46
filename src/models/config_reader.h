#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem {

/// Typed look-up in a config.json that remembers which keys were read, so that none is dropped
/// silently. A null counts as absent; a key "a|b" is either name, the first present one counts.
/// Errors name key, file and what was expected.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& object, std::string file);

  bool has(std::string_view key);
  std::optional<int64_t> get_int(std::string_view key);
  std::optional<double> get_number(std::string_view key);
  std::optional<bool> get_bool(std::string_view key);
  std::optional<std::string> get_string(std::string_view key);
  /// An object, or null.
  const nlohmann::json* get_object(std::string_view key);
  std::vector<double> get_numbers(std::string_view key);
  std::vector<std::string> get_strings(std::string_view key);
  /// There, though perhaps null.
  bool is_null(std::string_view key);

  int64_t need_int(std::string_view key);
  /// `fallback` is the default of the reference implementation's config class.
  int64_t int_or(std::string_view key, int64_t fallback) { return get_int(key).value_or(fallback); }
  double number_or(std::string_view key, double fallback) {
    return get_number(key).value_or(fallback);
  }
  bool bool_or(std::string_view key, bool fallback) { return get_bool(key).value_or(fallback); }
  std::string string_or(std::string_view key, const std::string& fallback) {
    return get_string(key).value_or(fallback);
  }

  /// Keys that may be there and change nothing about the forward pass.
  void ignore(std::initializer_list<std::string_view> keys);
  /// Error unless every key was read, ignored or allowed.
  void finish(const std::vector<std::string>& allowed) const;

  const std::string& file() const { return file_; }
  [[noreturn]] void fail(std::string_view key, const std::string& expected) const;

 private:
  const nlohmann::json* find(std::string_view key);

  const nlohmann::json& object_;
  std::string file_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace mainstem
