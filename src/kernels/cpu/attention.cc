// Attention over cached keys and values. Query heads that read the same kv head form the rows of
// one tile, in prefill and in decode. Tiles and cuts depend on shapes and ranges only.

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/drivers.h"

namespace mainstem::kernels {
namespace {

constexpr int64_t kChunkKeys = 128;  // scores of one step of the running softmax
constexpr int64_t kSplitKeys = 256;  // few rows: runs of keys are cut to about this length,
constexpr int64_t kMaxSplits = 32;   // into so many at most,
constexpr int64_t kFewTiles = 32;    // where there are no more tiles than this
constexpr float kLowest = -std::numeric_limits<float>::infinity();

int64_t padded(int64_t width) { return round_up(width, kPanelRows); }

/// Rows of a tile while its keys pass by: output, largest score, sum of weights.
struct Partial {
  Partial(float* memory, int64_t width)
      : out(memory), max(out + kMaxTileRows * width), sum(max + kMaxTileRows) {}
  static int64_t floats(int64_t width) {
    return round_up(kMaxTileRows * width + 2 * kMaxTileRows, kPanelRows);
  }
  float* out;
  float* max;
  float* sum;
};

/// Tile rows of one kv head of one sequence: row v is head v % group of query row v / group.
struct TileShape {
  int64_t rows, tiles, height;
};
TileShape tile_shape(const AttentionArgs& args, const AttentionSequence& sequence) {
  const int64_t rows = sequence.rows * (args.heads / args.kv_heads);
  const int64_t tiles = ceil_div(rows, kMaxTileRows);
  return {rows, tiles, tiles == 0 ? 0 : ceil_div(rows, tiles)};
}

int64_t count_tiles(const AttentionArgs& args) {
  int64_t tiles = 0;
  for (const AttentionSequence& s : args.sequences) {
    tiles += tile_shape(args, s).tiles * args.kv_heads;
  }
  return tiles;
}

int64_t worker_floats(int64_t width) {
  return kMaxTileRows * (width + kChunkKeys) + Partial::floats(width);
}

class Attention {
 public:
  Attention(const MicroKernels& micro, const AttentionArgs& args, const Worker& worker)
      : micro_(micro),
        args_(args),
        worker_(worker),
        group_(args.heads / args.kv_heads),
        width_(padded(args.head_width)),
        few_(count_tiles(args) <= kFewTiles) {
    auto* memory = reinterpret_cast<float*>(args.scratch);
    float* own = memory + worker.index * worker_floats(width_);
    q_ = own;
    scores_ = q_ + kMaxTileRows * width_;
    own_partial_ = scores_ + kMaxTileRows * kChunkKeys;
    shared_ = memory + worker.count * worker_floats(width_);
  }

  void run() {
    int64_t total = 0;
    bool any_split = false;
    for_tiles([&](const Tile& t, int64_t splits) {
      total += cost(t);
      any_split = any_split || splits > 1;
    });
    const auto mine = worker_.slice(total);
    int64_t at = 0;
    const auto is_mine = [&] { return at >= mine.first && at < mine.second; };
    for_tiles([&](const Tile& t, int64_t splits) {
      const int64_t keys = t.end - t.begin;
      const int64_t length = round_up(ceil_div(keys, splits), kKeyBlock);
      for (int64_t i = 0; i < splits; ++i) {
        if (is_mine()) {
          const Partial partial(splits == 1 ? own_partial_ : shared_partial(t.index, i), width_);
          const int64_t begin = t.begin + i * length;
          pass_keys(t, begin, i + 1 == splits ? t.end : std::min(t.end, begin + length), partial);
          if (splits == 1) finish(t, partial);
        }
        at += i + 1 == splits ? cost(t) - i * (cost(t) / splits) : cost(t) / splits;
      }
    });
    if (!any_split) return;
    worker_.sync();
    for_tiles([&](const Tile& t, int64_t splits) {
      if (splits > 1 && t.index % worker_.count == worker_.index) merge(t, splits);
    });
  }

 private:
  struct Tile {
    int64_t index;
    const AttentionSequence* sequence;
    int64_t kv_head, first;  ///< first tile row
    int rows;
    int64_t begin, end;  ///< keys that any row sees; begin is a multiple of 16
  };

  static int64_t cost(const Tile& t) { return t.rows * (t.end - t.begin + 16); }

  const KeyRange& range(const Tile& t, int64_t row) const {
    return args_.ranges[t.sequence->row_begin + (t.first + row) / group_];
  }
  int64_t head(const Tile& t, int64_t row) const {
    return t.kv_head * group_ + (t.first + row) % group_;
  }
  float* shared_partial(int64_t tile, int64_t split) const {
    return shared_ + (tile * kMaxSplits + split) * Partial::floats(width_);
  }

  template <typename Body>
  void for_tiles(Body body) const {
    int64_t index = 0;
    for (const AttentionSequence& sequence : args_.sequences) {
      const TileShape shape = tile_shape(args_, sequence);
      for (int64_t g = 0; g < args_.kv_heads; ++g) {
        for (int64_t first = 0; first < shape.rows; first += shape.height) {
          Tile t{index++,
                 &sequence,
                 g,
                 first,
                 static_cast<int>(std::min(shape.height, shape.rows - first)),
                 0,
                 0};
          bool seen = false;
          for (int64_t r = 0; r < t.rows; ++r) {
            const KeyRange& keys = range(t, r);
            if (keys.begin >= keys.end) continue;
            t.begin = seen ? std::min(t.begin, keys.begin) : keys.begin;
            t.end = seen ? std::max(t.end, keys.end) : keys.end;
            seen = true;
          }
          t.begin = t.begin / kKeyBlock * kKeyBlock;
          const int64_t splits =
              few_ ? std::clamp<int64_t>(ceil_div(t.end - t.begin, kSplitKeys), 1, kMaxSplits) : 1;
          body(t, splits);
        }
      }
    }
  }

  /// Rows of the tile over keys [begin, end), begin a multiple of 16.
  void pass_keys(const Tile& t, int64_t begin, int64_t end, const Partial& to) {
    std::memset(to.out, 0, sizeof(float) * static_cast<size_t>(t.rows * width_));
    for (int r = 0; r < t.rows; ++r) {
      to.max[r] = kLowest;
      to.sum[r] = 0;
    }
    if (begin >= end) return;
    const int64_t e_count = args_.head_width;
    for (int r = 0; r < t.rows; ++r) {
      const int64_t row = t.sequence->row_begin + (t.first + r) / group_;
      micro_.rows.scale(args_.scale, args_.q + row * args_.q_stride + head(t, r) * e_count,
                        q_ + r * width_, e_count);
    }
    const int64_t head_offset = t.kv_head * e_count * kKeyBlock;
    const AttentionTile tile{.rows = t.rows,
                             .head_width = e_count,
                             .block_stride = args_.kv_heads * e_count * kKeyBlock,
                             .keys = t.sequence->keys + head_offset,
                             .values = t.sequence->values + head_offset,
                             .q = q_,
                             .q_stride = width_,
                             .scores = scores_,
                             .score_stride = kChunkKeys,
                             .out = to.out,
                             .out_stride = width_};
    // Keys that all rows see. The rest is added row by row, so that a key that a row must not see
    // cannot touch it, not even with 0 times NaN.
    KeyRange common{begin, end};
    for (int r = 0; r < t.rows; ++r) {
      common.begin = std::max(common.begin, range(t, r).begin);
      common.end = std::min(common.end, range(t, r).end);
    }
    for (int64_t chunk = begin; chunk < end; chunk += kChunkKeys) {
      const int64_t stop = std::min(chunk + kChunkKeys, end);
      micro_.attention.scores(tile, chunk, round_up(stop, kKeyBlock));
      const KeyRange all{std::max(common.begin, chunk), std::min(common.end, stop)};
      const bool any_common = all.begin < all.end;
      for (int r = 0; r < t.rows; ++r) {
        const KeyRange own{std::max(range(t, r).begin, chunk), std::min(range(t, r).end, stop)};
        if (own.begin >= own.end) continue;
        micro_.attention.softmax(
            {.scores = scores_ + r * kChunkKeys,
             .count = stop - chunk,
             .lo = own.begin - chunk,
             .hi = own.end - chunk,
             .soft_cap = args_.soft_cap,
             .slope = args_.alibi_slopes == nullptr ? 0 : args_.alibi_slopes[head(t, r)],
             .first_position = static_cast<float>(chunk),
             .out = to.out + r * width_,
             .out_width = width_,
             .max = to.max + r,
             .sum = to.sum + r});
        AttentionTile one = tile;
        one.rows = 1;
        one.scores += r * kChunkKeys;
        one.out += r * width_;
        const int64_t left = any_common ? all.begin : own.end;
        if (own.begin < left) micro_.attention.values(one, chunk, own.begin, left);
        if (any_common && all.end < own.end) {
          micro_.attention.values(one, chunk, all.end, own.end);
        }
      }
      if (any_common) micro_.attention.values(tile, chunk, all.begin, all.end);
    }
  }

  float* out_row(const Tile& t, int64_t r) const {
    const int64_t row = t.sequence->row_begin + (t.first + r) / group_;
    return args_.out + row * args_.out_stride + head(t, r) * args_.head_width;
  }
  bool sees_nothing(const Tile& t, int64_t r) const {
    const bool nothing = range(t, r).begin >= range(t, r).end;
    if (nothing)
      std::memset(out_row(t, r), 0, sizeof(float) * static_cast<size_t>(args_.head_width));
    return nothing;
  }

  void finish(const Tile& t, const Partial& from) {
    for (int r = 0; r < t.rows; ++r) {
      if (sees_nothing(t, r)) continue;
      float* y = out_row(t, r);
      const float* o = from.out + r * width_;
      const float sum = from.sum[r];
      for (int64_t e = 0; e < args_.head_width; ++e) y[e] = o[e] / sum;
    }
  }

  /// Joins the runs of keys, in their order.
  void merge(const Tile& t, int64_t splits) {
    for (int r = 0; r < t.rows; ++r) {
      if (sees_nothing(t, r)) continue;
      float top = kLowest;
      for (int64_t i = 0; i < splits; ++i) {
        top = std::max(top, Partial(shared_partial(t.index, i), width_).max[r]);
      }
      float* y = own_partial_;
      std::memset(y, 0, sizeof(float) * static_cast<size_t>(width_));
      float sum = 0;
      for (int64_t i = 0; i < splits; ++i) {
        const Partial part(shared_partial(t.index, i), width_);
        // Without a finite maximum the run is empty (adds 0) or holds NaN (which must show).
        const float factor = part.max[r] > kLowest ? std::exp(part.max[r] - top) : 1.0f;
        sum += factor * part.sum[r];
        for (int64_t e = 0; e < args_.head_width; ++e) y[e] += factor * part.out[r * width_ + e];
      }
      float* out = out_row(t, r);
      for (int64_t e = 0; e < args_.head_width; ++e) out[e] = y[e] / sum;
    }
  }

  const MicroKernels& micro_;
  const AttentionArgs& args_;
  const Worker& worker_;
  const int64_t group_, width_;
  const bool few_;
  float *q_, *scores_, *own_partial_, *shared_;
};

}  // namespace

size_t attention_scratch_bytes(const AttentionArgs& args, int workers) {
  const int64_t width = padded(args.head_width);
  const int64_t tiles = count_tiles(args);
  int64_t floats = workers * worker_floats(width);
  if (tiles <= kFewTiles) floats += tiles * kMaxSplits * Partial::floats(width);
  return static_cast<size_t>(floats) * sizeof(float);
}

void attention(const MicroKernels& micro, const AttentionArgs& args, const Worker& worker) {
  Attention(micro, args, worker).run();
}

}  // namespace mainstem::kernels
