// Attention, one query row of one head at a time. Keys and values are taken sixteen at a time, as
// the cache holds them, each sum in the order of its own terms.

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/reference/reference.h"

namespace mainstem::reference {
namespace {

constexpr int64_t kWidth = 16;

template <typename T, typename A>
class Row {
 public:
  using Number = typename A::Number;

  Row(const AttentionArgs& args, const AttentionSequence<T>& sequence, const A& arithmetic,
      double* buffer)
      : args_(args), sequence_(sequence), a_(arithmetic), buffer_(buffer) {}

  /// The query's number among the sequence's rows, its head, and the half-open range of its keys.
  struct Query {
    int64_t row, head;
    int64_t from, to;
    const T* q;
    T* mix;
  };
  void run(const Query& query) {
    query_ = query;
    const int64_t group = args_.heads / args_.kv_heads;
    kv_head_ =
        args_.kv_map.empty() ? query.head / group : args_.kv_map[static_cast<size_t>(query.head)];
    square_ = (query.head * sequence_.rows + query.row) * sequence_.key_count;
    if (args_.parts.scores) make_scores();
    if (args_.parts.pattern) make_pattern();
    if (args_.parts.mix) make_mix();
  }

 private:
  static Sixteen<Number> times(Number factor, const T* x) {
    Sixteen<Number> products;
#pragma GCC unroll 16
    for (int64_t j = 0; j < kWidth; ++j) products.v[j] = factor * static_cast<Number>(x[j]);
    return products;
  }
  Number at_buffer(int64_t s) const { return static_cast<Number>(buffer_[s]); }

  void make_scores() {
    const double slope =
        args_.alibi_slopes.empty() ? 0.0 : args_.alibi_slopes[static_cast<size_t>(query_.head)];
    const Exact::ScoreParams params{args_.scale, args_.soft_cap, slope};
    // Scores are shown for all keys, also for those the mask will hide.
    const bool shown = sequence_.scores != nullptr;
    const int64_t from = shown ? 0 : query_.from;
    const int64_t to = shown ? sequence_.key_count : query_.to;
    const KeyLayout layout{args_.kv_heads, args_.head_width};
    for (int64_t first = from / kWidth * kWidth; first < to; first += kWidth) {
      const T* keys = sequence_.keys + layout.key(first, kv_head_, 0);
      const auto products = a_.template sum<Sixteen<Number>>(args_.head_width, [&](int64_t e) {
        const Number q = a_.query(static_cast<Number>(query_.q[e]), args_.scale);
        return times(q, keys + e * kWidth);
      });
      for (int64_t s = std::max(from, first); s < std::min(to, first + kWidth); ++s) {
        buffer_[s] =
            static_cast<double>(a_.score(products.v[s - first], params, static_cast<double>(s)));
      }
    }
    if (shown) {
      for (int64_t s = 0; s < to; ++s) sequence_.scores[square_ + s] = static_cast<T>(buffer_[s]);
    }
  }

  /// Leaves exp(score - maximum) in the buffer and their sum in total_.
  void make_pattern() {
    if (!args_.parts.scores) {
      for (int64_t s = query_.from; s < query_.to; ++s) {
        buffer_[s] = static_cast<double>(sequence_.scores[square_ + s]);
      }
    }
    if (args_.hidden_score) show_hidden_keys(*args_.hidden_score);
    const int64_t from = query_.from, to = query_.to;
    Number maximum = -INFINITY;
    for (int64_t s = from; s < to; ++s) {
      const Number score = at_buffer(s);
      maximum = std::isnan(score) ? score : std::max(maximum, score);
      if (std::isnan(maximum)) break;
    }
    for (int64_t s = from; s < to; ++s) {
      buffer_[s] = static_cast<double>(a_.exp(at_buffer(s) - maximum));
    }
    total_ = a_.sum(to - from, [&](int64_t i) { return at_buffer(from + i); });
    if (sequence_.pattern == nullptr) return;
    T* pattern = sequence_.pattern + square_;
    for (int64_t s = 0; s < sequence_.key_count; ++s) {
      pattern[s] = s >= from && s < to ? static_cast<T>(a_.pattern(at_buffer(s), total_))
                                       : static_cast<T>(0);
    }
  }

  /// From here on every key has a part, those that the mask hides by the one score.
  void show_hidden_keys(double score) {
    if (query_.from >= query_.to) query_.from = query_.to = 0;
    std::fill(buffer_, buffer_ + query_.from, score);
    std::fill(buffer_ + query_.to, buffer_ + sequence_.key_count, score);
    query_.from = 0;
    query_.to = sequence_.key_count;
  }

  void make_mix() {
    int64_t from = query_.from, to = query_.to;
    Number divisor = 1;
    if (args_.parts.pattern) {
      if (from < to) divisor = a_.mix_divisor(total_);
      for (int64_t s = from; s < to; ++s) {
        buffer_[s] = static_cast<double>(a_.mix_weight(at_buffer(s), total_));
      }
    } else {
      widen_to_pattern(from, to);
      for (int64_t s = from; s < to; ++s) {
        const auto given = static_cast<Number>(sequence_.pattern[square_ + s]);
        buffer_[s] = static_cast<double>(a_.given_weight(given));
      }
    }
    for (int64_t first = 0; first < args_.head_width; first += kWidth) {
      const int64_t count = std::min(kWidth, args_.head_width - first);
      // What the mask hides counts only where a given pattern says so.
      const bool hides = from < query_.from || to > query_.to;
      const auto mixed = hides            ? mix_channels<true>(from, to, first, count)
                         : count < kWidth ? mix_channels<false>(from, to, first, count)
                                          : mix_channels<false>(from, to, first, Whole());
      for (int64_t j = 0; j < count; ++j) {
        query_.mix[first + j] = static_cast<T>(a_.store(mixed.v[j] / divisor));
      }
    }
  }

  using Whole = std::integral_constant<int64_t, kWidth>;

  /// The sums of `count` channels of the values, from channel `first`, over keys [from, to).
  template <bool hides, typename Count>
  Sixteen<Number> mix_channels(int64_t from, int64_t to, int64_t first, Count count) const {
    const KeyLayout layout{args_.kv_heads, args_.head_width};
    return a_.template mix<Sixteen<Number>>(to - from, [&](int64_t i) {
      const int64_t s = from + i;
      const Number p = at_buffer(s);
      const T* values = sequence_.values + layout.value(s, kv_head_, first);
      if constexpr (!hides && std::is_same_v<Count, Whole>) return times(p, values);
      Sixteen<Number> terms{};
      if (hides && p == 0 && (s < query_.from || s >= query_.to)) return terms;
      for (int64_t j = 0; j < count; ++j) terms.v[j] = p * static_cast<Number>(values[j]);
      return terms;
    });
  }

  /// The range of keys, and all others that a given pattern does not leave out.
  void widen_to_pattern(int64_t& from, int64_t& to) const {
    const T* pattern = sequence_.pattern + square_;
    if (from >= to) from = to = 0;
    for (int64_t s = 0; s < sequence_.key_count; ++s) {
      if (pattern[s] == 0) continue;
      if (from == to) from = s, to = s + 1;
      from = std::min(from, s);
      to = std::max(to, s + 1);
    }
  }

  const AttentionArgs& args_;
  const AttentionSequence<T>& sequence_;
  const A& a_;
  double* buffer_;
  Query query_ = {};
  int64_t kv_head_ = 0;
  int64_t square_ = 0;  // where the row starts in the sequence's scores and pattern
  Number total_ = 0;
};

}  // namespace

template <typename T, typename A>
void attention(const AttentionArgs& args, std::span<const AttentionSequence<T>> sequences,
               const int64_t* begin, const int64_t* end, const T* q, T* out, double* buffer,
               const Worker& worker, const A& arithmetic) {
  for (const AttentionSequence<T>& sequence : sequences) {
    Row<T, A> row(args, sequence, arithmetic, buffer);
    const auto [first, last] = worker.slice(sequence.rows * args.heads);
    for (int64_t job = first; job < last; ++job) {
      if (args.cancel != nullptr && args.cancel->load(std::memory_order_relaxed)) return;
      const int64_t m = sequence.row_begin + job / args.heads;
      const int64_t at = (m * args.heads + job % args.heads) * args.head_width;
      row.run({.row = job / args.heads,
               .head = job % args.heads,
               .from = begin[m],
               .to = end[m],
               .q = q + at,
               .mix = out + at});
    }
  }
}

#define MAINSTEM_INSTANTIATE(T, A)                                                           \
  template void attention<T, A>(const AttentionArgs&, std::span<const AttentionSequence<T>>, \
                                const int64_t*, const int64_t*, const T*, T*, double*,       \
                                const Worker&, const A&);
MAINSTEM_INSTANTIATE(float, Exact)
MAINSTEM_INSTANTIATE(double, Exact)
MAINSTEM_INSTANTIATE(double, Rounded)
#undef MAINSTEM_INSTANTIATE

}  // namespace mainstem::reference
