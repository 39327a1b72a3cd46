#include "models/tokenizer/tokenizer_json.h"

#include <limits>
#include <optional>
#include <utility>

#include "io/json.h"
#include "io/memory_budget.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem::tokenizer {
namespace {

using Json = nlohmann::json;

class Handler : public JsonHandler {
 public:
  Handler(TokenizerJson& out, MemoryBudget& budget) : out_(out), budget_(budget) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(Json::number_integer_t value) override {
    return in_ == In::kVocab ? add_vocab(value) : put(value);
  }
  bool number_unsigned(Json::number_unsigned_t value) override {
    if (in_ != In::kVocab) return put(value);
    constexpr auto kMost =
        static_cast<Json::number_unsigned_t>(std::numeric_limits<int64_t>::max());
    return add_vocab(static_cast<int64_t>(std::min(value, kMost)));
  }
  bool number_float(Json::number_float_t value, const std::string&) override { return put(value); }
  bool string(std::string& value) override {
    switch (in_) {
      case In::kTree:
        budget_.charge(48 + value.size(), "tokenizer.json");
        return put(std::move(value));
      case In::kVocab:
        refuse_value();
      case In::kMerges:
        return add_merge_line(value);
      case In::kMergePair:
        if (pair_count_ < 2) pair_[pair_count_] = keep(value);
        ++pair_count_;
        return true;
    }
    return true;
  }
  bool start_object(size_t) override {
    if (in_ != In::kTree) refuse_value();
    if (at("vocab")) {
      in_ = In::kVocab;
      return true;
    }
    return open(Json::object());
  }
  bool end_object() override {
    if (in_ == In::kVocab) {
      in_ = In::kTree;
      return true;
    }
    return close();
  }
  bool start_array(size_t) override {
    if (in_ == In::kMerges) {
      in_ = In::kMergePair;
      pair_count_ = 0;
      return true;
    }
    if (in_ != In::kTree) refuse_value();
    if (at("merges")) {
      in_ = In::kMerges;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (in_ == In::kMergePair) {
      if (pair_count_ != 2) {
        throw bad_input("merge " + std::to_string(out_.merges.size()), "two texts",
                        std::to_string(pair_count_));
      }
      budget_.charge(3 * sizeof(TokenizerJson::Merge), "merges");
      out_.merges.push_back({pair_[0], pair_[1]});
      in_ = In::kMerges;
      return true;
    }
    if (in_ == In::kMerges) {
      in_ = In::kTree;
      return true;
    }
    return close();
  }
  bool key(std::string& name) override {
    if (in_ == In::kVocab) {
      pending_ = keep(name);
      return true;
    }
    budget_.charge(112 + name.size(), "tokenizer.json");
    auto& object = stack_.back()->get_ref<Json::object_t&>();
    const auto [place, added] = object.try_emplace(std::move(name));
    if (!added) throw bad_input("JSON key", "each key once", quote(place->first) + " twice");
    member_ = &place->second;
    if (stack_.size() == 1) in_model_ = place->first == "model";
    if (stack_.size() == 2) section_ = place->first;
    return true;
  }

 private:
  enum class In { kTree, kVocab, kMerges, kMergePair };

  /// Is the value that begins here model.`name`?
  bool at(std::string_view name) const {
    return stack_.size() == 2 && in_model_ && stack_.back()->is_object() && section_ == name;
  }

  [[noreturn]] void refuse_value() const {
    if (in_ == In::kVocab) {
      throw bad_input("model.vocab", "token texts with integer ids", "another value");
    }
    throw bad_input("merge " + std::to_string(out_.merges.size()), "\"a b\" or [\"a\", \"b\"]",
                    "another value");
  }

  TokenizerJson::Text keep(std::string_view text) {
    if (out_.arena.size() + text.size() > std::numeric_limits<uint32_t>::max()) {
      throw bad_input("tokenizer.json", "less than 4 GB of token texts", "more");
    }
    budget_.charge(3 * text.size(), "tokenizer.json");
    const auto offset = static_cast<uint32_t>(out_.arena.size());
    out_.arena += text;
    return {offset, static_cast<uint32_t>(text.size())};
  }

  bool add_vocab(int64_t id) {
    budget_.charge(3 * sizeof(TokenizerJson::Entry), "model.vocab");
    out_.vocab.push_back({pending_, id});
    return true;
  }

  bool add_merge_line(std::string_view line) {
    const size_t space = line.find(' ');
    const bool two = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                     line.find(' ', space + 1) == std::string_view::npos;
    if (!two) {
      throw bad_input("merge " + std::to_string(out_.merges.size()),
                      "two texts with one space between them", quote(line));
    }
    budget_.charge(3 * sizeof(TokenizerJson::Merge), "merges");
    const TokenizerJson::Text left = keep(line.substr(0, space));
    out_.merges.push_back({left, keep(line.substr(space + 1))});
    return true;
  }

  template <typename Value>
  Json* add(Value&& value) {
    if (in_ != In::kTree) refuse_value();
    if (stack_.empty()) {
      out_.tree = std::forward<Value>(value);
      return &out_.tree;
    }
    if (stack_.back()->is_object()) {
      *member_ = std::forward<Value>(value);
      return member_;
    }
    budget_.charge(3 * sizeof(Json), "tokenizer.json");
    auto& array = stack_.back()->get_ref<Json::array_t&>();
    array.emplace_back(std::forward<Value>(value));
    return &array.back();
  }
  template <typename Value>
  bool put(Value&& value) {
    add(std::forward<Value>(value));
    return true;
  }
  bool open(Json empty) {
    budget_.charge(64, "tokenizer.json");
    stack_.push_back(add(std::move(empty)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  TokenizerJson& out_;
  MemoryBudget& budget_;
  In in_ = In::kTree;
  std::vector<Json*> stack_;
  Json* member_ = nullptr;
  bool in_model_ = false;
  std::string section_;  // the last key one level down
  TokenizerJson::Text pending_{};
  TokenizerJson::Text pair_[2] = {};
  size_t pair_count_ = 0;
};

}  // namespace

TokenizerJson read_tokenizer_json(std::string_view text) {
  TokenizerJson out;
  MemoryBudget budget(text.size());
  Handler handler(out, budget);
  parse_json_events(text, JsonLimits{}, budget, handler);
  if (!out.tree.is_object()) throw bad_input("tokenizer.json", "an object", out.tree.type_name());
  return out;
}

}  // namespace mainstem::tokenizer
