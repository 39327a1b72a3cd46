#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

// The values that a template works with: Python's, as far as templates need them. Everything but
// namespaces, iterators and loops is immutable, so values share their contents.

namespace mainstem::chat {

class Value;
class Runtime;
struct Arguments;
struct Scope;
struct MacroStatement;

using Items = std::vector<Value>;

enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kView,      ///< what dict.items(), keys() and values() give
  kRange,     ///< of integers
  kIterator,  ///< of filters that Python writes as generators: can be read once
  kNamespace,
  kLoop,  ///< the variable `loop`
  kFunction,
  kMethod,
  kMacro,
};

/// Why a value is undefined, for the message of whoever uses it: "'x' is undefined".
struct Undefined {
  std::string why;
};
struct None {
  friend bool operator==(None, None) { return true; }
};
struct Text {
  std::string bytes;    ///< UTF-8
  bool markup = false;  ///< from `safe` or `escape`: adding to it escapes what is added
};
struct List;
struct Tuple;
struct Dict;
struct View;
struct Range;
struct Iterator;
struct Namespace;
struct Loop;
struct Function;
struct Method;
struct Macro;

template <typename T>
using Shared = std::shared_ptr<T>;

class Value {
 public:
  Value() : data_(None{}) {}
  template <typename T>
    requires(!std::is_same_v<std::decay_t<T>, Value>)
  explicit Value(T data) : data_(std::move(data)) {}
  static Value undefined(std::string why) {
    return Value(std::make_shared<Undefined>(std::move(why)));
  }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind_wanted) const { return kind() == kind_wanted; }
  bool is_number() const { return is(Kind::kInt) || is(Kind::kFloat) || is(Kind::kBool); }
  bool is_sequence() const { return is(Kind::kList) || is(Kind::kTuple); }

  template <typename T>
  const T& as() const {
    return std::get<T>(data_);
  }
  /// The contents of a shared kind.
  template <typename T>
  T& at() const {
    return *std::get<Shared<T>>(data_);
  }
  template <typename T>
  const Shared<T>& shared() const {
    return std::get<Shared<T>>(data_);
  }
  std::string_view text() const { return at<const Text>().bytes; }
  bool is_markup() const { return is(Kind::kString) && at<const Text>().markup; }
  const std::string& why_undefined() const { return at<Undefined>().why; }
  /// An integer, or a bool as 0 or 1.
  int64_t integer() const;
  /// Any number.
  double number() const;
  /// Elements of a list or tuple.
  const Items& items() const;
  /// How many containers lie within each other.
  int depth() const;

 private:
  // In the order of Kind.
  std::variant<Shared<Undefined>, None, bool, int64_t, double, Shared<const Text>,
               Shared<const List>, Shared<const Tuple>, Shared<const Dict>, Shared<const View>,
               Shared<const Range>, Shared<Iterator>, Shared<Namespace>, Shared<Loop>,
               Shared<const Function>, Shared<const Method>, Shared<const Macro>>
      data_;
};

struct List {
  Items items;
  int depth = 1;
};
struct Tuple {
  Items items;
  int depth = 1;
};

/// In order of insertion, as Python's.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string, size_t> places;  ///< by hash_key
  int depth = 1;
};

struct View {
  enum class What { kKeys, kValues, kItems } what;
  Shared<const Dict> dict;
};

struct Range {
  int64_t start = 0, stop = 0, step = 1;
  int64_t size() const;
};

struct Iterator {
  Items items;
  size_t next = 0;
  int depth = 1;
};

struct Namespace {
  std::map<std::string, Value, std::less<>> members;
};

struct Loop {
  Items items;
  size_t index = 0;
  int depth = 1;
};

struct Function {
  std::string_view name;
  Value (*call)(Runtime&, const Arguments&);
};

struct Method {
  Value self;
  std::string_view name;
  Value (*call)(Runtime&, const Value& self, const Arguments&);
};

struct Macro {
  const MacroStatement* statement;
  Shared<Scope> scope;  ///< where it was defined
};

/// "int", "str", … as Python names them.
std::string_view type_name(const Value& value);

bool is_true(const Value& value);

}  // namespace mainstem::chat
