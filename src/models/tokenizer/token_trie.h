#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace mainstem::tokenizer {

/// A set of texts with values, to find every one that a text begins with.
class TokenTrie {
 public:
  struct Entry {
    std::string_view text;
    int32_t value;
  };

  TokenTrie() = default;
  /// Of equal texts the last counts; empty ones are left out.
  explicit TokenTrie(std::vector<Entry> entries);

  bool empty() const { return first_child_.empty(); }

  /// Calls visit(length, value) for each entry that begins `text`, the shortest first. Returns
  /// how many bytes were looked at.
  template <typename Visit>
  size_t visit_prefixes(std::string_view text, Visit&& visit) const {
    if (empty()) return 0;
    uint32_t node = 0;
    size_t length = 0;
    while (length < text.size()) {
      node = child(node, static_cast<uint8_t>(text[length]));
      if (node == 0) break;
      ++length;
      if (values_[node] >= 0) visit(length, values_[node]);
    }
    return length;
  }

  struct Match {
    size_t length = 0;  ///< 0: none
    int32_t value = -1;
    size_t looked = 0;  ///< bytes
  };
  Match longest(std::string_view text) const;

 private:
  /// 0 if there is none: nothing leads back to the root.
  uint32_t child(uint32_t node, uint8_t label) const;

  // Nodes in the order of their depth, so that the children of a node are neighbours.
  std::vector<uint32_t> first_child_;  // [nodes + 1]
  std::vector<uint8_t> labels_;        // [nodes]; those of one node's children rise
  std::vector<int32_t> values_;        // [nodes], -1: no entry ends here
};

}  // namespace mainstem::tokenizer
