#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/gguf.h"

namespace mainstem {

/// Look-up of a GGUF file's "ARCH.key" words that remembers which were read, so that none is
/// dropped silently. Keys are given without the architecture. Errors name key and file.
class GgufWords {
 public:
  using FindTensor = std::function<const StoredTensor*(std::string_view)>;
  /// `find_tensor` looks in all parts of a split file.
  GgufWords(const GgufFile& file, FindTensor find_tensor);

  std::string_view arch() const { return arch_; }
  std::optional<int64_t> get_int(std::string_view key) { return file_.get_int(full(key)); }
  std::optional<double> get_number(std::string_view key) { return file_.get_float(full(key)); }
  std::optional<bool> get_bool(std::string_view key) { return file_.get_bool(full(key)); }
  std::optional<std::string_view> get_string(std::string_view key) {
    return file_.get_string(full(key));
  }
  /// A list of integers or flags, as numbers; or one of them, taken for every block.
  std::optional<std::vector<int64_t>> get_per_block(std::string_view key, int64_t blocks);
  bool is_list(std::string_view key) const;
  int64_t need_int(std::string_view key) { return file_.need_int(full(key)); }
  double need_number(std::string_view key) { return file_.need_float(full(key)); }

  const StoredTensor* find(std::string_view tensor) const { return find_tensor_(tensor); }
  bool has(std::string_view tensor) const { return find(tensor) != nullptr; }
  /// The values of a tensor that says something about the model: `count` of them, or an Error.
  std::vector<double> take_values(std::string_view tensor, int64_t count);
  const std::set<std::string>& taken() const { return taken_; }

  /// Keys that may be there and change nothing about the forward pass.
  void ignore(std::initializer_list<std::string_view> keys);
  /// Error unless every key of this architecture was read or ignored.
  void finish() const;
  [[noreturn]] void fail(std::string_view key, const std::string& expected,
                         const std::string& found) const;
  const std::string& path() const { return file_.path(); }

 private:
  std::string with_arch(std::string_view key) const;
  std::string full(std::string_view key);

  const GgufFile& file_;
  std::string arch_;
  FindTensor find_tensor_;
  std::set<std::string, std::less<>> used_;
  std::set<std::string> taken_;
};

}  // namespace mainstem
