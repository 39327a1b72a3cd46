#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/tokenizer/byte_tokens.h"
#include "models/tokenizer/model.h"
#include "models/tokenizer/spec.h"
#include "models/tokenizer/vocab.h"

namespace mainstem::tokenizer {

/// Rank and result of merging two tokens, by their ids.
class MergeTable {
 public:
  struct Entry {
    uint64_t pair;
    uint32_t rank;
    int32_t merged;
  };

  explicit MergeTable(size_t expected);
  void insert(int32_t left, int32_t right, uint32_t rank, int32_t merged, bool replace);
  /// nullptr if the two do not merge.
  const Entry* find(int32_t left, int32_t right) const {
    const uint64_t pair = key(left, right);
    for (size_t slot = start(pair);; slot = (slot + 1) & mask_) {
      if (slots_[slot].pair == pair) return &slots_[slot];
      if (slots_[slot].pair == kFree) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t start(uint64_t pair) const {
    return static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> 32) & mask_;
  }

  size_t mask_;
  std::vector<Entry> slots_;
};

/// Byte-pair encoding of bytes or of characters: the pair of lowest rank merges first, the leftmost
/// of equals, until no pair is left that merges (Sennrich et al. 2016, section 3.2; GPT-2's
/// encoder.py; for characters models/bpe of tokenizers 0.23.3).
class MergeBpe final : public Model {
 public:
  /// `vocab` outlives the model.
  MergeBpe(const TokenizerSpec& spec, const Vocab& vocab);
  void encode(std::string_view word, EncodeContext& context,
              std::vector<int64_t>& ids) const override;

  /// How many of the 256 bytes have no token.
  int missing_bytes() const;

 private:
  size_t first_symbols(std::string_view word, MissingByte missing, int32_t* symbols) const;
  size_t first_bytes(std::string_view word, MissingByte missing, int32_t* symbols) const;
  size_t first_characters(std::string_view word, MissingByte missing, int32_t* symbols) const;
  void merge_short(std::span<int32_t> symbols, EncodeContext& context,
                   std::vector<int64_t>& ids) const;
  void merge_long(std::span<const int32_t> symbols, EncodeContext& context,
                  std::vector<int64_t>& ids) const;

  const Vocab& vocab_;
  MergeTable merges_;
  bool by_bytes_;
  std::array<int32_t, 256> byte_ids_;  // of single bytes, -1: none
  ByteTokens byte_tokens_;
  std::optional<int32_t> missing_id_;
  bool fuse_missing_;
  bool ignore_merges_;
};

}  // namespace mainstem::tokenizer
