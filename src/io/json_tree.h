#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "io/json.h"
#include "io/memory_budget.h"

namespace mainstem {

/// Builds the tree of a document and charges it to a budget; nlohmann's own builder takes the
/// last of equal keys and counts no memory. A handler that keeps parts of a document elsewhere
/// derives from it and passes on only what belongs into the tree.
class JsonTreeBuilder : public JsonHandler {
 public:
  /// `name` is what a message calls the document.
  JsonTreeBuilder(nlohmann::json& root, MemoryBudget& budget, const char* name)
      : root_(root), budget_(budget), name_(name) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const std::string& text) override;
  bool string(std::string& value) override;
  bool start_object(size_t count) override;
  bool start_array(size_t count) override;
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override;

 protected:
  MemoryBudget& budget() { return budget_; }
  /// How many objects and arrays are open.
  size_t depth() const { return open_.size(); }
  bool in_object() const { return !open_.empty() && open_.back()->is_object(); }

 private:
  template <typename Value>
  nlohmann::json* add(Value&& value) {
    if (open_.empty()) {
      root_ = std::forward<Value>(value);
      return &root_;
    }
    if (open_.back()->is_object()) {
      *member_ = std::forward<Value>(value);
      return member_;
    }
    // A vector that grows holds its old and new memory at once.
    budget_.charge(3 * sizeof(nlohmann::json), name_);
    auto& array = open_.back()->get_ref<nlohmann::json::array_t&>();
    array.emplace_back(std::forward<Value>(value));
    return &array.back();
  }
  template <typename Value>
  bool put(Value&& value) {
    add(std::forward<Value>(value));
    return true;
  }
  bool open(nlohmann::json empty);
  bool close();

  nlohmann::json& root_;
  MemoryBudget& budget_;
  const char* name_;
  std::vector<nlohmann::json*> open_;
  nlohmann::json* member_ = nullptr;  // where the value of the last key goes
};

}  // namespace mainstem
