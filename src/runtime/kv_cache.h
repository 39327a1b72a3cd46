#pragma once

#include <cstring>
#include <vector>

#include "kernels/reference/reference.h"
#include "mainstem/tensor.h"

namespace mainstem {

/// Keys and values of one attention step for one sequence, in blocks of 16 positions
/// (kernels/cpu_kernels.h). Grows without moving what callers wrote before the pass.
template <typename T>
class KvStore {
 public:
  explicit KvStore(reference::KeyLayout layout) : layout_(layout) {}

  const reference::KeyLayout& layout() const { return layout_; }
  T* keys() const { return keys_.as<T>(); }
  T* values() const { return values_.as<T>(); }

  /// Makes room for `positions`, keeping what is there.
  void reserve(int64_t positions) {
    if (positions <= capacity_) return;
    int64_t capacity = capacity_ + capacity_ / 2;
    if (capacity < positions) capacity = positions;
    capacity = (capacity + 15) / 16 * 16;
    grow(keys_, capacity);
    grow(values_, capacity);
    capacity_ = capacity;
  }

 private:
  void grow(AlignedBuffer& buffer, int64_t capacity) {
    // Zeroed, so that the unused tail of a block never holds a signalling pattern.
    AlignedBuffer bigger(static_cast<size_t>(capacity / 16 * layout_.block()) * sizeof(T), true);
    if (buffer.size() > 0) std::memcpy(bigger.data(), buffer.data(), buffer.size());
    buffer = std::move(bigger);
  }

  reference::KeyLayout layout_;
  int64_t capacity_ = 0;
  AlignedBuffer keys_, values_;
};

/// Everything a sequence leaves behind for its next pass.
template <typename T>
struct SequenceState {
  std::vector<KvStore<T>> stores;  ///< one per attention step of the program, in order
  int64_t length = 0;              ///< positions in the self-attention stores
  int64_t padding = 0;             ///< of them, leading ones that nobody may see
  int64_t encoder_length = 0;
  int64_t encoder_padding = 0;
};

}  // namespace mainstem
