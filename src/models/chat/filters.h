#pragma once

#include <span>
#include <string_view>

#include "models/chat/ast.h"

namespace mainstem::chat {

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};

/// The filters of filters_text.cc, filters_sequence.cc and filters_choose.cc.
std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> number_filters();
std::span<const FilterEntry> sequence_filters();
std::span<const FilterEntry> choosing_filters();

/// "a.b.0" as filters take it: members of members, and indices where a part is a number.
class AttributePath {
 public:
  explicit AttributePath(const Value& attribute);
  Value operator()(Runtime& runtime, Value item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

/// Strings in lower case, all else as it is: what sorting compares.
Value without_case(Runtime& runtime, const Value& value);

}  // namespace mainstem::chat
