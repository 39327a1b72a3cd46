#pragma once

// The plain kernels: loops that read like the formula, in float and in double. They define what
// every step means; the fast kernels are tested against them. Sums are carried in double, so the
// float versions round once at the end. In the other arithmetic, Rounded, the same loops imitate an
// implementation of lower precision on values that lie in doubles. Every function slices its own
// work among the workers.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "kernels/reference/arithmetic.h"
#include "mainstem/activation.h"
#include "mainstem/threads.h"

namespace mainstem::reference {

/// Reads row n of a weight matrix as T.
template <typename T>
using RowReader = std::function<void(int64_t row, T* out)>;

/// y[m,n] = sum_k x[m,k] W[n,k] + bias[n]. x [M,K], y [M,N]; `row_buffer` holds K values of this
/// worker. Output columns are shared among the workers.
template <typename T>
void linear(const T* x, int64_t rows, int64_t columns, const RowReader<T>& weight, int64_t outputs,
            const T* bias, T* y, T* row_buffer, const Worker& worker);

struct NormArgs {
  bool layer_norm = false;
  double eps = 0;
  double weight_offset = 0;
  int64_t group = 0;              ///< channels normalised together; divides the row
  bool weight_per_group = false;  ///< weights [columns] instead of [group]
};
/// x, y [M, columns]; weight and bias may be null.
template <typename T, typename A = Exact>
void norm(const T* x, int64_t rows, int64_t columns, const NormArgs& args, const T* weight,
          const T* bias, T* y, const Worker& worker, const A& arithmetic = {});

double activate(Activation kind, double x);
template <typename T, typename A = Exact>
void activation(Activation kind, const T* x, T* y, int64_t count, const Worker& worker,
                const A& arithmetic = {});
/// y = factor x
template <typename T, typename A = Exact>
void scale(double factor, const T* x, T* y, int64_t count, const Worker& worker,
           const A& arithmetic = {});
/// y = cap tanh(x / cap)
template <typename T, typename A = Exact>
void soft_cap(double cap, const T* x, T* y, int64_t count, const Worker& worker,
              const A& arithmetic = {});
/// y = a b
template <typename T, typename A = Exact>
void multiply(const T* a, const T* b, T* y, int64_t count, const Worker& worker,
              const A& arithmetic = {});
/// y = sum of the terms, one after the other. y may be none of them but the first.
template <typename T, typename A = Exact>
void add(std::span<const T* const> terms, T* y, int64_t count, const Worker& worker,
         const A& arithmetic = {});

/// cosine, sine [M, width/2]; channels from `width` on pass through. x, y [M, heads*head_width].
template <typename T, typename A = Exact>
void rotary(const T* cosine, const T* sine, int64_t width, bool interleaved, int64_t rows,
            int64_t heads, int64_t head_width, const T* x, T* y, const Worker& worker,
            const A& arithmetic = {});

/// Layout of cached keys and values, in blocks of 16 positions (see kernels/cpu_kernels.h).
struct KeyLayout {
  int64_t kv_heads = 0, head_width = 0;
  int64_t block() const { return kv_heads * head_width * 16; }
  int64_t key(int64_t s, int64_t g, int64_t e) const {
    return s / 16 * block() + (g * head_width + e) * 16 + s % 16;
  }
  int64_t value(int64_t s, int64_t g, int64_t e) const {
    return s / 16 * block() + (g * 16 + s % 16) * head_width + e;
  }
};

template <typename T>
struct AttentionSequence {
  int64_t row_begin = 0, rows = 0;
  int64_t key_count = 0;
  const T* keys = nullptr;
  const T* values = nullptr;
  T* scores = nullptr;   ///< [H, rows, S], or null
  T* pattern = nullptr;  ///< [H, rows, S], or null
};

/// The parts of attention that a call does. It takes what an earlier part made from the sequence's
/// scores or pattern, which somebody may have changed: masked scores are not read, whatever they
/// hold, while a changed pattern counts at every key.
struct AttentionParts {
  bool scores = true, pattern = true, mix = true;
};

struct AttentionArgs {
  int64_t heads = 0, kv_heads = 0, head_width = 0;
  double scale = 1, soft_cap = 0;
  std::span<const double> alibi_slopes;
  std::span<const int64_t> kv_map;     ///< kv head of each query head; empty: h / (H/K)
  std::optional<double> hidden_score;  ///< score of a key out of range; none: it has no part
  AttentionParts parts = {};
  const std::atomic<bool>* cancel = nullptr;  ///< once true: returns early, `out` is incomplete
};

/// out[m, h*E + e] = sum_s softmax_s(score)[s] v[s, g, e] over the half-open range of keys of row
/// m (begin[m] to end[m]); a row without keys gives zeros. `buffer` holds S doubles per worker.
template <typename T, typename A = Exact>
void attention(const AttentionArgs& args, std::span<const AttentionSequence<T>> sequences,
               const int64_t* begin, const int64_t* end, const T* q, T* out, double* buffer,
               const Worker& worker, const A& arithmetic = {});

}  // namespace mainstem::reference
