#pragma once

// Matrix products in which every element is a sum in a stated order: in double for passes that
// judge others, in float for those that imitate an implementation's rounding. Weights are read row
// by row from whatever type they are stored in. The bits of an element depend on the number of
// columns, the order and the instruction set: never on other rows or on the number of workers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/isa.h"
#include "kernels/reference/sums.h"
#include "mainstem/threads.h"

namespace mainstem::kernels {

/// Sums of K products as runs of places: the products of one run make one chain of multiply-adds,
/// and the runs' sums are added one after the other.
struct ChainOrder {
  std::vector<int32_t> columns;  ///< the column at each place, -1 for none; empty: as they stand
  int64_t places = 0;
  int64_t run = 0;
};
/// What `order` means for K columns.
ChainOrder chain_order(SumOrder order, int64_t columns);
/// Short runs for double: small errors, and panels that fit into the first cache.
ChainOrder double_chain_order(int64_t columns);

/// Bytes of M packed rows.
template <typename T>
size_t chain_input_bytes(int64_t rows, const ChainOrder& order);
struct ChainInput {
  const double* x = nullptr;      ///< [M, K]
  int64_t rows = 0, columns = 0;  ///< M, K
  const ChainOrder* order = nullptr;
  /// Changes a row before it is packed; may be empty.
  std::function<void(std::span<double> row)> round_row = {};
};
/// Lays out the rows for chain_product, rounded to T. Rows are shared among the workers; the caller
/// synchronises before the product.
template <typename T>
void pack_chain_input(Isa isa, const ChainInput& input, std::byte* packed, const Worker& worker);

template <typename T>
struct ChainProduct {
  int64_t rows = 0, columns = 0, outputs = 0;  ///< M, K, N
  const ChainOrder* order = nullptr;
  const std::byte* packed = nullptr;
  /// Row n of the weights as K values of T.
  std::function<void(int64_t n, T* row)> weight;
  /// Changes the sums of one run before they are added to those before; may be empty.
  std::function<void(std::span<T> sums)> round_run = {};
  /// Takes the sums of row m, columns n, n + 1, …: every element once, in any order.
  std::function<void(int64_t m, int64_t n, std::span<const T> sums)> finish;
  std::byte* scratch = nullptr;  ///< chain_scratch_bytes of this worker, 64-byte aligned
};
template <typename T>
size_t chain_scratch_bytes(int64_t columns, const ChainOrder& order);
/// Output columns are shared among the workers.
template <typename T>
void chain_product(Isa isa, const ChainProduct<T>& product, const Worker& worker);

}  // namespace mainstem::kernels
