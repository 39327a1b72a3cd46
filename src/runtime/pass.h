#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "mainstem/program.h"
#include "runtime/kv_cache.h"

namespace mainstem {

enum class LogitRows : uint8_t { kLast, kAll };

/// What one sequence brings to a pass. Spans must outlive the pass.
template <typename T>
struct PassSequence {
  SequenceState<T>* state = nullptr;
  std::span<const int64_t> tokens;
  std::span<const int64_t> encoder_tokens;
  std::span<const int64_t> token_types;  ///< empty: all 0
  std::span<const int64_t> positions;    ///< empty: counted from the first token that is no padding
  int64_t padding = 0;                   ///< leading tokens of a first pass that nobody may see
  int64_t encoder_padding = 0;
  std::span<const T> input;  ///< rows of a block on its own; then tokens is empty
  int64_t reach = 0;         ///< length that rotary scalings go by, where more is to come
};

/// The rows of a pass: which sequence, which position, which keys each row may see.
template <typename T>
class PassRows {
 public:
  /// Checks everything the caller gave: ids, positions and types in range, lengths equal.
  PassRows(const Program& program, std::span<const PassSequence<T>> sequences, LogitRows logits);

  int64_t count(Rows rows) const { return counts_[static_cast<size_t>(rows)]; }
  /// First row of sequence i among rows of that kind.
  int64_t begin(Rows rows, size_t sequence) const {
    return begins_[static_cast<size_t>(rows)][sequence];
  }
  int64_t count(Rows rows, size_t sequence) const {
    return begins_[static_cast<size_t>(rows)][sequence + 1] - begin(rows, sequence);
  }
  std::span<const int64_t> ids(Rows rows) const { return ids_[static_cast<size_t>(rows)]; }
  std::span<const int64_t> positions(Rows rows) const {
    return positions_[static_cast<size_t>(rows)];
  }
  /// Of the rows of sequence i, by another rule.
  std::vector<int64_t> positions(Rows rows, size_t sequence, RowPosition rule) const;
  std::span<const int64_t> token_types() const { return token_types_; }
  /// Main row of each head row.
  std::span<const int64_t> head_rows() const { return head_rows_; }
  /// Longest position of sequence i so far plus one; 0 where it has no such rows.
  int64_t longest(Rows rows, size_t sequence) const {
    return longest_[static_cast<size_t>(rows)][sequence];
  }
  /// All sequences bring equally many rows and keys, so that values have a [B,T,…] shape.
  bool uniform() const { return uniform_; }

  /// Half-open key ranges of the rows of an attention step.
  std::vector<kernels::KeyRange> key_ranges(const AttentionParams& params, Rows rows) const;
  /// Keys in the cache of sequence i once this pass has written its own.
  int64_t key_count(const AttentionParams& params, Rows rows, size_t sequence) const;
  bool continues() const { return continues_; }

 private:
  void add_rows(Rows rows, std::span<const int64_t> tokens, std::span<const int64_t> given,
                int64_t past, int64_t padding, int64_t vocab_size);
  void check_position_table(const StackSpec& stack, Rows rows) const;

  std::span<const PassSequence<T>> sequences_;
  int64_t counts_[3] = {};
  std::vector<int64_t> begins_[3];
  std::vector<int64_t> ids_[3], positions_[3];
  std::vector<int64_t> token_types_, head_rows_;
  std::vector<int64_t> longest_[3];
  bool uniform_ = true;
  bool continues_ = false;
};

extern template class PassRows<float>;
extern template class PassRows<double>;

}  // namespace mainstem
