#include <gtest/gtest.h>

#include "kernels/cpu_test_util.h"

namespace mainstem::kernels {
namespace {

using test::compare;
using test::Random;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Keys and values of one sequence, also laid out as the cache has them.
struct Cache {
  Cache(Random& random, int64_t length, int64_t kv_heads, int64_t width)
      : heads(kv_heads),
        e_count(width),
        k(random.normals(length * kv_heads * width)),
        v(random.normals(length * kv_heads * width)) {
    const int64_t blocks = (length + kKeyBlock - 1) / kKeyBlock;
    const auto size = static_cast<size_t>(blocks * kKeyBlock * kv_heads * width);
    // What was never written may be anything.
    keys.assign(size, kNan);
    values.assign(size, kNan);
    for (int64_t s = 0; s < length; ++s) write(s);
  }
  void write(int64_t s) {
    for (int64_t g = 0; g < heads; ++g) {
      for (int64_t e = 0; e < e_count; ++e) {
        const int64_t block = s / 16 * (heads * e_count * 16) + g * (e_count * 16);
        const auto from = static_cast<size_t>((s * heads + g) * e_count + e);
        keys[static_cast<size_t>(block + e * 16 + s % 16)] = k[from];
        values[static_cast<size_t>(block + s % 16 * e_count + e)] = v[from];
      }
    }
  }
  int64_t heads, e_count;
  std::vector<float> k, v, keys, values;
};

struct Problem {
  int64_t heads, kv_heads, width;
  float scale = 0.2f, soft_cap = 0;
  std::vector<float> slopes = {};
  std::vector<Cache> caches = {};
  std::vector<int64_t> rows = {};     // of each sequence
  std::vector<KeyRange> ranges = {};  // of each row
  std::vector<float> q = {};

  int64_t row_count() const { return static_cast<int64_t>(ranges.size()); }
};

struct Expected {
  std::vector<double> y, bound;
};

/// softmax(scores) V in double; the bound follows the score's error through the exponential.
Expected plain_attention(const Problem& p) {
  Expected e;
  int64_t m = 0;
  for (size_t s = 0; s < p.rows.size(); ++s) {
    const Cache& cache = p.caches[s];
    for (int64_t r = 0; r < p.rows[s]; ++r, ++m) {
      const KeyRange range = p.ranges[static_cast<size_t>(m)];
      for (int64_t h = 0; h < p.heads; ++h) {
        const int64_t g = h / (p.heads / p.kv_heads);
        std::vector<double> score, error;
        double top = -1e300;
        for (int64_t key = range.begin; key < range.end; ++key) {
          double dot = 0, magnitude = 0;
          for (int64_t c = 0; c < p.width; ++c) {
            const double t =
                static_cast<double>(p.q[static_cast<size_t>((m * p.heads + h) * p.width + c)]) *
                static_cast<double>(
                    cache.k[static_cast<size_t>((key * p.kv_heads + g) * p.width + c)]);
            dot += t;
            magnitude += std::fabs(t);
          }
          dot *= static_cast<double>(p.scale);
          double err = test::dot_bound(static_cast<double>(p.width),
                                       magnitude * std::fabs(static_cast<double>(p.scale)), 1);
          if (p.soft_cap != 0) {
            const auto cap = static_cast<double>(p.soft_cap);
            dot = cap * std::tanh(dot / cap);
            err += test::function_bound(dot, 6);
          }
          if (!p.slopes.empty()) {
            const double bias =
                static_cast<double>(p.slopes[static_cast<size_t>(h)]) * static_cast<double>(key);
            dot += bias;
            err += test::gamma(2) * (std::fabs(dot) + std::fabs(bias));
          }
          score.push_back(dot);
          error.push_back(err);
          top = std::max(top, dot);
        }
        double sum = 0, worst = 0;
        const auto n = static_cast<double>(score.size());
        for (size_t i = 0; i < score.size(); ++i) {
          // The subtraction of the maximum rounds as well; exp has two units.
          worst =
              std::max(worst, error[i] + test::gamma(2) * (std::fabs(score[i]) + std::fabs(top)));
          sum += std::exp(score[i] - top);
        }
        for (int64_t c = 0; c < p.width; ++c) {
          double y = 0, magnitude = 0;
          for (size_t i = 0; i < score.size(); ++i) {
            const auto key = range.begin + static_cast<int64_t>(i);
            const double t =
                std::exp(score[i] - top) / sum *
                static_cast<double>(
                    cache.v[static_cast<size_t>((key * p.kv_heads + g) * p.width + c)]);
            y += t;
            magnitude += std::fabs(t);
          }
          e.y.push_back(y);
          // Weights and their sum both carry the error of the scores.
          e.bound.push_back((2 * worst + test::gamma(2 * n + 20)) * magnitude);
        }
      }
    }
  }
  return e;
}

std::vector<float> run(const Problem& p, Isa isa, int workers) {
  std::vector<AttentionSequence> sequences;
  int64_t begin = 0;
  for (size_t s = 0; s < p.rows.size(); ++s) {
    sequences.push_back({begin, p.rows[s], p.caches[s].keys.data(), p.caches[s].values.data()});
    begin += p.rows[s];
  }
  const int64_t stride = p.heads * p.width;
  std::vector<float> y(static_cast<size_t>(p.row_count() * stride), -7.0f);
  AttentionArgs args{.heads = p.heads,
                     .kv_heads = p.kv_heads,
                     .head_width = p.width,
                     .scale = p.scale,
                     .soft_cap = p.soft_cap,
                     .alibi_slopes = p.slopes.empty() ? nullptr : p.slopes.data(),
                     .sequences = sequences,
                     .ranges = p.ranges.data(),
                     .q = p.q.data(),
                     .q_stride = stride,
                     .out = y.data(),
                     .out_stride = stride};
  const CpuKernels& kernels = cpu_kernels(isa);
  const AlignedBuffer scratch(kernels.attention_scratch_bytes(args, workers));
  args.scratch = scratch.data();
  ThreadPool::shared().run(workers, [&](const Worker& worker) { kernels.attention(args, worker); });
  return y;
}

void check(const Problem& p, const std::string& what) {
  const Expected e = plain_attention(p);
  for (const Isa isa : available_isas()) {
    const std::vector<float> first = run(p, isa, 1);
    const auto c = compare<float>(first, e.y, e.bound);
    ASSERT_TRUE(c.pass) << what << " " << name(isa) << ": " << c.text;
    for (const int workers : {2, 3}) {
      ASSERT_EQ(first, run(p, isa, workers)) << what << " " << name(isa) << " workers " << workers;
    }
  }
}

/// Rows at the end of a sequence of `length`, causal, with a window (0: none).
void add_sequence(Random& random, Problem& p, int64_t length, int64_t rows, int64_t window) {
  p.caches.emplace_back(random, length, p.kv_heads, p.width);
  p.rows.push_back(rows);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t end = length - rows + r + 1;
    p.ranges.push_back({window > 0 ? std::max<int64_t>(0, end - window) : 0, end});
  }
  const std::vector<float> q = random.normals(rows * p.heads * p.width);
  p.q.insert(p.q.end(), q.begin(), q.end());
}

TEST(CpuAttention, CausalOddSizes) {
  Random random(1);
  for (const auto& [heads, kv_heads] :
       {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {9, 3}, {7, 1}, {8, 2}}) {
    for (const int64_t width : {1, 5, 16, 20, 64, 72}) {
      for (const int64_t length : {1, 15, 16, 17, 50, 200}) {
        for (const int64_t rows : {int64_t{1}, std::min<int64_t>(length, 3), length}) {
          Problem p{.heads = heads, .kv_heads = kv_heads, .width = width};
          add_sequence(random, p, length, rows, 0);
          check(p, "H" + std::to_string(heads) + " E" + std::to_string(width) + " S" +
                       std::to_string(length) + " T" + std::to_string(rows));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(CpuAttention, WindowsCapsSlopes) {
  Random random(2);
  for (const int64_t window : {1, 7, 16, 40}) {
    for (const float cap : {0.0f, 1.5f}) {
      for (const bool alibi : {false, true}) {
        Problem p{.heads = 6, .kv_heads = 2, .width = 24, .soft_cap = cap};
        if (alibi) p.slopes = {0.5f, 0.25f, 0.125f, 0.0f, -0.1f, 0.03f};
        add_sequence(random, p, 150, 150, window);
        check(p, "window " + std::to_string(window));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CpuAttention, ManySequencesAndSplitKeys) {
  Random random(3);
  Problem p{.heads = 9, .kv_heads = 3, .width = 64};
  add_sequence(random, p, 700, 1, 0);
  add_sequence(random, p, 33, 1, 0);
  add_sequence(random, p, 1500, 2, 0);
  check(p, "decode");
  Problem longest{.heads = 2, .kv_heads = 1, .width = 8};
  add_sequence(random, longest, 12000, 1, 0);
  check(longest, "long decode");
  Problem mixed{.heads = 4, .kv_heads = 2, .width = 32};
  add_sequence(random, mixed, 300, 64, 0);
  add_sequence(random, mixed, 40, 1, 0);
  check(mixed, "mixed");
}

TEST(CpuAttention, BidirectionalAndDisjointRanges) {
  Random random(4);
  Problem p{.heads = 3, .kv_heads = 3, .width = 16};
  add_sequence(random, p, 60, 60, 0);
  for (KeyRange& r : p.ranges) r = {0, 60};
  check(p, "all");
  // Packed documents: the tile's rows see keys that do not overlap.
  for (size_t m = 0; m < p.ranges.size(); ++m) {
    const auto document = static_cast<int64_t>(m) / 4;
    p.ranges[m] = {document * 4, document * 4 + 4};
  }
  check(p, "documents");
}

TEST(CpuAttention, EmptyRangesGiveZeros) {
  Random random(5);
  Problem p{.heads = 6, .kv_heads = 2, .width = 20};
  add_sequence(random, p, 30, 30, 0);
  for (size_t m = 0; m < p.ranges.size(); m += 3) p.ranges[m] = {5, 5};
  p.ranges[1] = {0, 0};
  check(p, "some empty");
  for (KeyRange& r : p.ranges) r = {0, 0};
  check(p, "all empty");
  for (const float y : run(p, active_isa(), 2)) EXPECT_EQ(y, 0.0f);
}

/// A key that a row does not see must not touch it; one that it sees must.
TEST(CpuAttention, NanReachesOnlyThoseWhoSeeIt) {
  for (const int64_t bad : {0, 7, 20, 39}) {
    for (const bool in_value : {false, true}) {
      Random random(6);
      Problem p{.heads = 6, .kv_heads = 2, .width = 16};
      add_sequence(random, p, 40, 40, 12);
      const Problem clean = p;
      for (int64_t i = 0; i < 2 * 16; ++i) {
        auto& side = in_value ? p.caches[0].v : p.caches[0].k;
        side[static_cast<size_t>(bad * 32 + i)] = kNan;
      }
      p.caches[0].write(bad);
      for (const Isa isa : available_isas()) {
        const std::vector<float> y = run(p, isa, 2), expected = run(clean, isa, 2);
        for (size_t i = 0; i < y.size(); ++i) {
          const KeyRange r = p.ranges[i / (6 * 16)];
          if (bad >= r.begin && bad < r.end) {
            ASSERT_TRUE(std::isnan(y[i])) << name(isa) << " row " << i / 96 << " bad " << bad;
          } else {
            ASSERT_EQ(y[i], expected[i]) << name(isa) << " row " << i / 96 << " bad " << bad;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mainstem::kernels
