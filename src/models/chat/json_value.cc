#include "models/chat/json_value.h"

#include <limits>

#include "io/json.h"
#include "io/text.h"

namespace mainstem::chat {
namespace {

constexpr size_t kMostDepth = 64;  // less than the runtime's own

class ValueBuilder : public JsonHandler {
 public:
  explicit ValueBuilder(Runtime& runtime) : runtime_(runtime) {}
  Value take() { return std::move(root_); }

  bool null() override { return put(Value()); }
  bool boolean(bool value) override { return put(Value(value)); }
  bool number_integer(number_integer_t value) override { return put(Value(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      refuse_integer(std::to_string(value));
    }
    return put(Value(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const std::string& text) override {
    // The parser takes an integer that is too long for a float.
    if (text.find_first_of(".eE") == text.npos) refuse_integer(text);
    return put(Value(value));
  }
  bool string(std::string& value) override { return put(runtime_.text(std::move(value))); }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool end_object() override {
    auto entries = std::move(open_.back().entries);
    open_.pop_back();
    return put(runtime_.dict(std::move(entries)));
  }
  bool end_array() override {
    Items items;
    for (auto& entry : open_.back().entries) items.push_back(std::move(entry.second));
    open_.pop_back();
    return put(runtime_.list(std::move(items)));
  }
  bool key(std::string& name) override {
    open_.back().key = runtime_.text(std::move(name));
    return true;
  }

 private:
  struct Open {
    bool object = false;
    Value key;
    std::vector<std::pair<Value, Value>> entries;
  };
  [[noreturn]] static void refuse_integer(const std::string& text) {
    throw bad_input("JSON", "integers of at most 64 bits", quote(text));
  }
  bool open(bool object) {
    open_.push_back({.object = object, .key = {}, .entries = {}});
    return true;
  }
  bool put(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().entries.emplace_back(open_.back().key, std::move(value));
    }
    return true;
  }

  Runtime& runtime_;
  std::vector<Open> open_;
  Value root_;
};

}  // namespace

Value value_of_json(Runtime& runtime, std::string_view text, const char* what) {
  try {
    ValueBuilder builder(runtime);
    MemoryBudget budget(text.size());
    JsonLimits limits;
    limits.max_depth = kMostDepth;
    parse_json_events(text, limits, budget, builder);
    return builder.take();
  } catch (const Error& error) {
    throw usage_error(what, "JSON", error.what());
  }
}

}  // namespace mainstem::chat
