#include "models/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <string>

#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem::tokenizer {
namespace {

/// Up to here looking at every pair for each merge is faster than a heap.
constexpr size_t kShortWord = 48;
constexpr uint32_t kNoMerge = std::numeric_limits<uint32_t>::max();

int32_t token_of_merge(const Vocab& vocab, std::string_view text, bool by_bytes, size_t rank,
                       std::string& buffer) {
  buffer.clear();
  if (!by_bytes || !append_token_bytes(text, buffer)) buffer = text;
  const int32_t id = vocab.find(buffer);
  if (id < 0) {
    throw bad_input("merge " + std::to_string(rank), "two tokens that join to a third",
                    quote(text) + ", which is no token");
  }
  return id;
}

}  // namespace

MergeTable::MergeTable(size_t expected)
    : mask_(std::bit_ceil(expected * 2 + 2) - 1), slots_(mask_ + 1, Entry{kFree, 0, 0}) {}

void MergeTable::insert(int32_t left, int32_t right, uint32_t rank, int32_t merged, bool replace) {
  const uint64_t pair = key(left, right);
  size_t slot = start(pair);
  while (slots_[slot].pair != kFree && slots_[slot].pair != pair) slot = (slot + 1) & mask_;
  if (slots_[slot].pair == kFree || replace) slots_[slot] = {pair, rank, merged};
}

MergeBpe::MergeBpe(const TokenizerSpec& spec, const Vocab& vocab)
    : vocab_(vocab),
      merges_(spec.merges.size()),
      by_bytes_(spec.model == ModelKind::kByteBpe),
      fuse_missing_(spec.fuse_missing),
      ignore_merges_(spec.ignore_merges) {
  for (size_t byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    byte_ids_[byte] = vocab.find_own({&text, 1});
  }
  if (spec.byte_fallback) byte_tokens_ = ByteTokens(vocab);
  if (spec.missing_id) missing_id_ = static_cast<int32_t>(*spec.missing_id);

  std::string left_bytes;
  std::string right_bytes;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const MergeSpec& merge = spec.merges[rank];
    const int32_t left = token_of_merge(vocab, merge.left, by_bytes_, rank, left_bytes);
    const int32_t right = token_of_merge(vocab, merge.right, by_bytes_, rank, right_bytes);
    left_bytes += right_bytes;
    const int32_t merged = vocab.find(left_bytes);
    if (merged < 0) {
      throw bad_input(
          "merge " + std::to_string(rank), "two tokens that join to a third",
          quote(merge.left) + " and " + quote(merge.right) + ", whose joint text is no token");
    }
    merges_.insert(left, right, static_cast<uint32_t>(rank), merged,
                   spec.last_duplicate_merge_wins);
  }
}

int MergeBpe::missing_bytes() const { return static_cast<int>(std::ranges::count(byte_ids_, -1)); }

size_t MergeBpe::first_symbols(std::string_view word, MissingByte missing, int32_t* symbols) const {
  return by_bytes_ ? first_bytes(word, missing, symbols) : first_characters(word, missing, symbols);
}

size_t MergeBpe::first_bytes(std::string_view word, MissingByte missing, int32_t* symbols) const {
  size_t count = 0;
  bool last_was_missing = false;
  for (size_t i = 0; i < word.size(); ++i) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(word[i])];
    if (id >= 0) {
      symbols[count++] = id;
      last_was_missing = false;
      continue;
    }
    if (missing_id_) {
      if (!(fuse_missing_ && last_was_missing)) symbols[count++] = *missing_id_;
      last_was_missing = true;
    } else if (missing == MissingByte::kError) {
      refuse_missing(word.substr(i, 1), word);
    }
  }
  return count;
}

size_t MergeBpe::first_characters(std::string_view word, MissingByte missing,
                                  int32_t* symbols) const {
  size_t count = 0;
  // An unknown token waits for the next that is known; byte tokens do not count as such. The order
  // is that of tokenizers where only some bytes have tokens.
  bool waiting = false;
  const auto add_waiting = [&] {
    if (waiting) symbols[count++] = *missing_id_;
    waiting = false;
  };
  for (size_t at = 0; at < word.size();) {
    const std::string_view character = word.substr(at, decode_utf8(word.substr(at)).length);
    at += character.size();
    const int32_t id = character.size() == 1 ? byte_ids_[static_cast<uint8_t>(character[0])]
                                             : vocab_.find_own(character);
    if (id >= 0) {
      add_waiting();
      symbols[count++] = id;
    } else if (byte_tokens_.has_all(character)) {
      for (const char byte : character) symbols[count++] = byte_tokens_[byte];
    } else if (missing_id_) {
      if (!fuse_missing_) add_waiting();
      waiting = true;
    } else if (missing == MissingByte::kError) {
      refuse_missing(character, word);
    }
  }
  add_waiting();
  return count;
}

void MergeBpe::encode(std::string_view word, EncodeContext& context,
                      std::vector<int64_t>& ids) const {
  context.work += word.size();
  if (ignore_merges_) {
    const int32_t whole = vocab_.find_own(word);
    if (whole >= 0 && vocab_.kind(whole) == TokenKind::kNormal) {
      ids.push_back(whole);
      return;
    }
  }
  if (word.size() <= kShortWord) {
    std::array<int32_t, kShortWord> symbols;
    const size_t count = first_symbols(word, context.missing, symbols.data());
    merge_short(std::span(symbols).first(count), context, ids);
    return;
  }
  if (word.size() > std::numeric_limits<int32_t>::max()) {
    throw usage_error("text to encode", "words of less than 2 GB",
                      std::to_string(word.size()) + " bytes");
  }
  std::vector<int32_t> symbols(word.size());
  symbols.resize(first_symbols(word, context.missing, symbols.data()));
  merge_long(symbols, context, ids);
}

void MergeBpe::merge_short(std::span<int32_t> symbols, EncodeContext& context,
                           std::vector<int64_t>& ids) const {
  // For each symbol the merge with its right neighbour.
  struct Next {
    uint32_t rank;
    int32_t merged;
  };
  std::array<Next, kShortWord> next;
  size_t count = symbols.size();
  const auto look_up = [&](size_t i) -> Next {
    if (i + 1 >= count) return {kNoMerge, 0};
    const MergeTable::Entry* entry = merges_.find(symbols[i], symbols[i + 1]);
    return entry == nullptr ? Next{kNoMerge, 0} : Next{entry->rank, entry->merged};
  };
  for (size_t i = 0; i < count; ++i) next[i] = look_up(i);
  while (count > 1) {
    context.work += count;
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (next[i].rank < next[best].rank) best = i;
    }
    if (next[best].rank == kNoMerge) break;
    symbols[best] = next[best].merged;
    std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              symbols.begin() + static_cast<std::ptrdiff_t>(count),
              symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(next.begin() + best + 2, next.begin() + count, next.begin() + best + 1);
    --count;
    next[best] = look_up(best);
    if (best > 0) next[best - 1] = look_up(best - 1);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(count));
}

void MergeBpe::merge_long(std::span<const int32_t> symbols, EncodeContext& context,
                          std::vector<int64_t>& ids) const {
  // A linked list of symbols and a heap of possible merges, as (rank, place of the left symbol).
  // An entry whose place has changed since is recognised when it comes up.
  struct Node {
    int32_t id;  // -1: merged into the symbol before it
    int32_t previous, next;
  };
  const auto count = static_cast<int32_t>(symbols.size());
  std::vector<Node> nodes(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    nodes[static_cast<size_t>(i)] = {symbols[static_cast<size_t>(i)], i - 1,
                                     i + 1 < count ? i + 1 : -1};
  }
  const auto node = [&nodes](int32_t at) -> Node& { return nodes[static_cast<size_t>(at)]; };
  const auto merge_at = [&](int32_t at) -> const MergeTable::Entry* {
    if (at < 0 || node(at).id < 0 || node(at).next < 0) return nullptr;
    return merges_.find(node(at).id, node(node(at).next).id);
  };
  const auto heap_key = [](uint32_t rank, int32_t at) {
    return uint64_t{rank} << 32 | static_cast<uint32_t>(at);
  };

  std::vector<uint64_t> heap;
  for (int32_t at = 0; at < count; ++at) {
    if (const auto* entry = merge_at(at)) heap.push_back(heap_key(entry->rank, at));
  }
  std::ranges::make_heap(heap, std::greater{});
  const auto push = [&](int32_t at) {
    if (const auto* entry = merge_at(at)) {
      heap.push_back(heap_key(entry->rank, at));
      std::ranges::push_heap(heap, std::greater{});
    }
  };
  while (!heap.empty()) {
    ++context.work;
    const uint64_t top = heap.front();
    std::ranges::pop_heap(heap, std::greater{});
    heap.pop_back();
    const auto at = static_cast<int32_t>(top & 0xFFFFFFFFu);
    const MergeTable::Entry* entry = merge_at(at);
    if (entry == nullptr || entry->rank != top >> 32) continue;
    Node& left = node(at);
    Node& right = node(left.next);
    left.id = entry->merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) node(left.next).previous = at;
    push(left.previous);
    push(at);
  }
  for (int32_t at = count > 0 ? 0 : -1; at >= 0; at = node(at).next) ids.push_back(node(at).id);
}

}  // namespace mainstem::tokenizer
