#include "models/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "io/json_tree.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem::tokenizer {
namespace {

using Json = nlohmann::json;

class Handler : public JsonTreeBuilder {
 public:
  Handler(TokenizerJson& out, MemoryBudget& budget)
      : JsonTreeBuilder(out.tree, budget, "tokenizer.json"), out_(out) {}

  bool null() override {
    check_tree();
    return JsonTreeBuilder::null();
  }
  bool boolean(bool value) override {
    check_tree();
    return JsonTreeBuilder::boolean(value);
  }
  bool number_integer(number_integer_t value) override {
    if (in_ == In::kVocab) return add_vocab(value);
    if (in_ == In::kScore) return add_score(static_cast<double>(value));
    check_tree();
    return JsonTreeBuilder::number_integer(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (in_ == In::kScore) return add_score(static_cast<double>(value));
    if (in_ == In::kVocab) {
      constexpr auto kMost = static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max());
      return add_vocab(static_cast<int64_t>(std::min(value, kMost)));
    }
    check_tree();
    return JsonTreeBuilder::number_unsigned(value);
  }
  bool number_float(number_float_t value, const std::string& text) override {
    if (in_ == In::kScore) return add_score(value);
    check_tree();
    return JsonTreeBuilder::number_float(value, text);
  }
  bool string(std::string& value) override {
    switch (in_) {
      case In::kTree:
        return JsonTreeBuilder::string(value);
      case In::kVocab:
      case In::kScores:
        refuse_value();
      case In::kScore:
        if (pair_count_ == 0) pair_[0] = keep(value);
        if (pair_count_++ != 0) refuse_value();
        return true;
      case In::kMerges:
        return add_merge_line(value);
      case In::kMergePair:
        if (pair_count_ < 2) pair_[pair_count_] = keep(value);
        ++pair_count_;
        return true;
    }
    return true;
  }
  bool start_object(size_t count) override {
    check_tree();
    if (at("vocab")) {
      in_ = In::kVocab;
      return true;
    }
    return JsonTreeBuilder::start_object(count);
  }
  bool end_object() override {
    if (in_ != In::kVocab) return JsonTreeBuilder::end_object();
    in_ = In::kTree;
    return true;
  }
  bool start_array(size_t count) override {
    if (in_ == In::kMerges || in_ == In::kScores) {
      in_ = in_ == In::kMerges ? In::kMergePair : In::kScore;
      pair_count_ = 0;
      return true;
    }
    check_tree();
    if (at("merges") || at("vocab")) {
      in_ = section_ == "merges" ? In::kMerges : In::kScores;
      out_.has_scores = out_.has_scores || in_ == In::kScores;
      return true;
    }
    return JsonTreeBuilder::start_array(count);
  }
  bool end_array() override {
    switch (in_) {
      case In::kMergePair:
        add_merge_pair();
        in_ = In::kMerges;
        return true;
      case In::kScore:
        if (pair_count_ != 2) refuse_value();
        in_ = In::kScores;
        return true;
      case In::kMerges:
      case In::kScores:
        in_ = In::kTree;
        return true;
      case In::kTree:
      case In::kVocab:
        break;
    }
    return JsonTreeBuilder::end_array();
  }
  bool key(std::string& name) override {
    if (in_ == In::kVocab) {
      pending_ = keep(name);
      return true;
    }
    if (depth() == 1) in_model_ = name == "model";
    if (depth() == 2) section_ = name;
    return JsonTreeBuilder::key(name);
  }

 private:
  enum class In {
    kTree,
    kVocab,      // model.vocab as an object: ids by text
    kScores,     // model.vocab as an array, and
    kScore,      // one [text, score] of it
    kMerges,     // model.merges, and
    kMergePair,  // one [left, right] of it
  };

  /// Is the value that begins here model.`name`?
  bool at(std::string_view name) const {
    return depth() == 2 && in_model_ && in_object() && section_ == name;
  }

  void check_tree() const {
    if (in_ != In::kTree) refuse_value();
  }

  [[noreturn]] void refuse_value() const {
    if (in_ == In::kVocab) {
      throw bad_input("model.vocab", "token texts with integer ids", "another value");
    }
    if (in_ == In::kScores || in_ == In::kScore) {
      throw bad_input("model.vocab entry " + std::to_string(out_.vocab.size()), "[text, score]",
                      "another value");
    }
    throw bad_input("merge " + std::to_string(out_.merges.size()), "\"a b\" or [\"a\", \"b\"]",
                    "another value");
  }

  TokenizerJson::Text keep(std::string_view text) {
    if (out_.arena.size() + text.size() > std::numeric_limits<uint32_t>::max()) {
      throw bad_input("tokenizer.json", "less than 4 GB of token texts", "more");
    }
    budget().charge(3 * text.size(), "tokenizer.json");
    const auto offset = static_cast<uint32_t>(out_.arena.size());
    out_.arena += text;
    return {offset, static_cast<uint32_t>(text.size())};
  }

  bool add_vocab(int64_t id) {
    budget().charge(3 * sizeof(TokenizerJson::Entry), "model.vocab");
    out_.vocab.push_back({pending_, id, 0});
    return true;
  }

  bool add_score(double score) {
    if (pair_count_++ != 1) refuse_value();
    budget().charge(3 * sizeof(TokenizerJson::Entry), "model.vocab");
    out_.vocab.push_back({pair_[0], static_cast<int64_t>(out_.vocab.size()), score});
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
    budget().charge(3 * sizeof(TokenizerJson::Merge), "merges");
    const TokenizerJson::Text left = keep(line.substr(0, space));
    out_.merges.push_back({left, keep(line.substr(space + 1))});
    return true;
  }

  void add_merge_pair() {
    if (pair_count_ != 2) {
      throw bad_input("merge " + std::to_string(out_.merges.size()), "two texts",
                      std::to_string(pair_count_));
    }
    budget().charge(3 * sizeof(TokenizerJson::Merge), "merges");
    out_.merges.push_back({pair_[0], pair_[1]});
  }

  TokenizerJson& out_;
  In in_ = In::kTree;
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
