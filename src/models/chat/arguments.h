#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/chat/runtime.h"
#include "models/chat/value.h"

namespace mainstem::chat {

/// The arguments of a call, evaluated.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Arguments by the names of a function's parameters, as Python binds them. `function` is for
/// messages: "filter 'join'".
class Bound {
 public:
  Bound(std::string function, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters, size_t required = 0);

  bool given(size_t place) const { return values_[place] != nullptr; }
  /// The value, or none where it is not given.
  const Value& operator[](size_t place) const;
  int64_t integer(size_t place, int64_t fallback) const;
  bool truth(size_t place, bool fallback) const;
  std::string_view text(size_t place, std::string_view fallback) const;
  [[noreturn]] void refuse(size_t place, std::string expected) const;

 private:
  std::string function_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> values_;
};

/// Throws unless there are none but the first `most` positional ones.
void expect_positional(std::string_view function, const Arguments& arguments, size_t least,
                       size_t most);

}  // namespace mainstem::chat
