#pragma once

#include <vector>

#include "kernels/cpu_kernels.h"
#include "mainstem/program.h"
#include "mainstem/weights.h"

namespace mainstem {

/// The weights of a program, found, checked and ready: vectors widened, matrices either as they
/// lie or packed once for the fast kernels. Immutable after pack(); shared by sessions.
class BoundWeights {
 public:
  /// Throws Error (bad input) that lists every missing weight, or names the first whose shape or
  /// type does not fit.
  BoundWeights(const Program& program, const WeightSources& sources);

  /// Packs every matrix that a product reads, with all threads; returns at once when done before.
  /// Not safe to call from two threads at a time.
  void pack(const Program& program, int threads);
  bool packed() const { return packed_; }

  const TensorView& source(WeightId id) const { return at(id).tensor; }
  /// Row n of a matrix or table. Quantised weights mean their float32 values in both.
  void read_weight_row(WeightId id, int64_t row, float* out) const;
  void read_weight_row(WeightId id, int64_t row, double* out) const;
  /// A vector weight; null where id is kNoId.
  template <typename T>
  const T* vector(WeightId id) const;
  const kernels::WeightMatrix& matrix(WeightId id) const { return at(id).matrix; }
  /// Bytes of all weights as they are stored in their files.
  int64_t stored_bytes() const;

 private:
  struct Entry {
    TensorView tensor;
    std::vector<int64_t> row_order;
    std::shared_ptr<const void> keep_alive;
    std::vector<float> f32;
    std::vector<double> f64;
    AlignedBuffer packed_bytes;
    kernels::WeightMatrix matrix;
    int64_t stored_bytes = 0;

    int64_t rows() const {
      return row_order.empty() ? tensor.rows() : static_cast<int64_t>(row_order.size());
    }
  };
  static void lay_plain(Entry& entry);
  const Entry& at(WeightId id) const { return entries_[static_cast<size_t>(id)]; }

  std::vector<Entry> entries_;
  bool packed_ = false;
};

template <>
inline const float* BoundWeights::vector<float>(WeightId id) const {
  return id == kNoId ? nullptr : at(id).f32.data();
}
template <>
inline const double* BoundWeights::vector<double>(WeightId id) const {
  return id == kNoId ? nullptr : at(id).f64.data();
}

}  // namespace mainstem
