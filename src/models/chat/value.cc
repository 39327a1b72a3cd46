#include "models/chat/value.h"

#include <algorithm>

#include "mainstem/error.h"
#include "models/chat/runtime.h"

namespace mainstem::chat {

int64_t Value::integer() const { return is(Kind::kBool) ? as<bool>() : as<int64_t>(); }

double Value::number() const {
  return is(Kind::kFloat) ? as<double>() : static_cast<double>(integer());
}

const Items& Value::items() const {
  return is(Kind::kList) ? at<const List>().items : at<const Tuple>().items;
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kList:
      return at<const List>().depth;
    case Kind::kTuple:
      return at<const Tuple>().depth;
    case Kind::kDict:
      return at<const Dict>().depth;
    case Kind::kView:
      return at<const View>().dict->depth + 1;
    case Kind::kMethod:
      return at<const Method>().self.depth() + 1;
    case Kind::kIterator:
      return at<Iterator>().depth;
    case Kind::kLoop:
      return at<Loop>().depth;
    default:
      return 0;
  }
}

int64_t Range::size() const {
  // Unsigned, since the span may not fit; the runtime keeps the size itself small.
  const auto low = static_cast<uint64_t>(step > 0 ? start : stop);
  const auto high = static_cast<uint64_t>(step > 0 ? stop : start);
  if (step > 0 ? stop <= start : start <= stop) return 0;
  const uint64_t by = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return static_cast<int64_t>((high - low - 1) / by + 1);
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kView:
      return "dict view";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return "iterator";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kLoop:
      return "loop";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "method";
    case Kind::kMacro:
      return "macro";
  }
  return "value";
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.as<bool>();
    case Kind::kInt:
      return value.as<int64_t>() != 0;
    case Kind::kFloat:
      return value.as<double>() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.items().empty();
    case Kind::kDict:
      return !value.at<const Dict>().entries.empty();
    case Kind::kView:
      return !value.at<const View>().dict->entries.empty();
    case Kind::kRange:
      return value.at<const Range>().size() > 0;
    case Kind::kLoop:
      return !value.at<Loop>().items.empty();
    default:
      return true;
  }
}

}  // namespace mainstem::chat
