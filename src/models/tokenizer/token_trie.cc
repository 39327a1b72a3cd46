#include "models/tokenizer/token_trie.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace mainstem::tokenizer {
namespace {

/// In the order of their texts; equal texts stay in the order in which they came.
std::vector<TokenTrie::Entry> by_text(const std::vector<TokenTrie::Entry>& entries) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(entries[i].text, i); });
  std::vector<TokenTrie::Entry> sorted;
  sorted.reserve(entries.size());
  for (const size_t i : order) sorted.push_back(entries[i]);
  return sorted;
}

}  // namespace

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& entry) { return entry.text.empty(); });
  if (entries.empty()) return;
  entries = by_text(entries);

  // The entries that go through one node are neighbours: a node is a range of them.
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> level = {{0, entries.size()}};
  labels_.push_back(0);
  values_.push_back(-1);
  for (size_t depth = 0; !level.empty(); ++depth) {
    std::vector<Range> next;
    for (Range range : level) {
      first_child_.push_back(static_cast<uint32_t>(labels_.size()));
      while (range.begin < range.end && entries[range.begin].text.size() == depth) ++range.begin;
      while (range.begin < range.end) {
        const char label = entries[range.begin].text[depth];
        size_t end = range.begin;
        int32_t value = -1;
        while (end < range.end && entries[end].text[depth] == label) {
          if (entries[end].text.size() == depth + 1) value = entries[end].value;
          ++end;
        }
        labels_.push_back(static_cast<uint8_t>(label));
        values_.push_back(value);
        next.push_back({range.begin, end});
        range.begin = end;
      }
    }
    level = std::move(next);
  }
  first_child_.push_back(static_cast<uint32_t>(labels_.size()));
}

uint32_t TokenTrie::child(uint32_t node, uint8_t label) const {
  const auto begin = labels_.begin() + first_child_[node];
  const auto end = labels_.begin() + first_child_[node + 1];
  const auto place = std::lower_bound(begin, end, label);
  if (place == end || *place != label) return 0;
  return static_cast<uint32_t>(place - labels_.begin());
}

TokenTrie::Match TokenTrie::longest(std::string_view text) const {
  Match match;
  match.looked = visit_prefixes(text, [&match](size_t length, int32_t value) {
    match.length = length;
    match.value = value;
  });
  return match;
}

}  // namespace mainstem::tokenizer
