// Products of chains: packing, blocking and the order in which runs are added.

#include "kernels/chain_product.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/drivers.h"

namespace mainstem::kernels {
namespace {

constexpr int64_t kPanel = 16;            // output columns that lie side by side
constexpr int64_t kRowsAtOnce = 240;      // a multiple of every tile height
constexpr int64_t kCacheBytes = 1 << 19;  // panels that a worker keeps at hand
constexpr int64_t kMostPanels = 4;
constexpr int64_t kRowPadding = 8;  // rows of a round size would share their places in a cache
constexpr int64_t kDoubleRun = 128;

template <typename T>
struct Tiles;
template <>
struct Tiles<float> {
  explicit Tiles(Isa isa) : kernels(micro_kernels(isa).chain), height(kernels.rows_f32) {}
  void operator()(const ChainTile<float>& tile) const { kernels.f32(tile); }
  const ChainKernels& kernels;
  int64_t height;
};
template <>
struct Tiles<double> {
  explicit Tiles(Isa isa) : kernels(micro_kernels(isa).chain), height(kernels.rows_f64) {}
  void operator()(const ChainTile<double>& tile) const { kernels.f64(tile); }
  const ChainKernels& kernels;
  int64_t height;
};

/// How a worker's memory is cut.
template <typename T>
struct Layout {
  Layout(int64_t columns, const ChainOrder& order)
      : row_stride(columns + kRowPadding),
        panel_size(order.places * kPanel),
        panel_count(std::clamp<int64_t>(kCacheBytes / (panel_size * kSize + 1), 1, kMostPanels)),
        sums_size(kRowsAtOnce * panel_count * kPanel) {}
  size_t bytes() const {
    return static_cast<size_t>((panel_count * panel_size + 2 * sums_size + kPanel * row_stride) *
                               kSize);
  }
  static constexpr int64_t kSize = sizeof(T);
  int64_t row_stride, panel_size, panel_count, sums_size;
};

template <typename T>
struct Scratch : Layout<T> {
  Scratch(std::byte* memory, int64_t columns, const ChainOrder& order)
      : Layout<T>(columns, order),
        panels(reinterpret_cast<T*>(memory)),
        sums(panels + this->panel_count * this->panel_size),
        run(sums + this->sums_size),
        rows(run + this->sums_size) {}
  T *panels, *sums, *run, *rows;
};

/// Sixteen rows of weights side by side: panel[place][16]; rows that do not exist are zeros.
template <typename T>
void fill_panel(const ChainProduct<T>& product, int64_t first, const Scratch<T>& scratch,
                T* panel) {
  const int64_t count = std::min(kPanel, product.outputs - first);
  for (int64_t r = 0; r < kPanel; ++r) {
    T* row = scratch.rows + r * scratch.row_stride;
    if (r < count) {
      product.weight(first + r, row);
    } else {
      std::fill_n(row, product.columns, T{});
    }
  }
  const ChainOrder& order = *product.order;
  for (int64_t p = 0; p < order.places; ++p) {
    const int64_t k = order.columns.empty() ? p : order.columns[static_cast<size_t>(p)];
    for (int64_t r = 0; r < kPanel; ++r) {
      panel[p * kPanel + r] = k < 0 ? T{} : scratch.rows[r * scratch.row_stride + k];
    }
  }
}

/// Rows [begin, end), at most kRowsAtOnce, of `panels` panels.
template <typename T>
void multiply(const Tiles<T>& tiles, const ChainProduct<T>& product, const Scratch<T>& scratch,
              int64_t begin, int64_t end, int64_t panels) {
  const ChainOrder& order = *product.order;
  const int64_t stride = panels * kPanel;
  const auto size = static_cast<size_t>((end - begin) * stride);
  std::fill_n(scratch.sums, size, T{});
  const bool rounds = static_cast<bool>(product.round_run);
  T* target = rounds ? scratch.run : scratch.sums;
  for (int64_t p = 0; p < order.places; p += order.run) {
    const int64_t places = std::min(order.run, order.places - p);
    if (rounds) std::fill_n(scratch.run, size, T{});
    for (int64_t m = begin; m < end; m += tiles.height) {
      const int64_t height = std::min(tiles.height, product.rows - m);
      for (int64_t j = 0; j < panels; ++j) {
        tiles({.rows = static_cast<int>(height),
               .places = places,
               .x = reinterpret_cast<const T*>(product.packed) + m * order.places + p * height,
               .w = scratch.panels + j * scratch.panel_size + p * kPanel,
               .c = target + (m - begin) * stride + j * kPanel,
               .c_stride = stride});
      }
    }
    if (!rounds) continue;
    product.round_run({scratch.run, size});
    for (size_t i = 0; i < size; ++i) scratch.sums[i] += scratch.run[i];
  }
}

}  // namespace

ChainOrder chain_order(SumOrder order, int64_t columns) {
  ChainOrder result{.columns = {}, .places = columns, .run = columns};
  switch (order) {
    case SumOrder::kForward:
      break;
    case SumOrder::kBackward:
      for (int64_t k = columns; k-- > 0;) result.columns.push_back(static_cast<int32_t>(k));
      break;
    case SumOrder::kLanes:
      result.run = ceil_div(columns, kSumLanes);
      result.places = result.run * kSumLanes;
      for (int64_t p = 0; p < result.places; ++p) {
        const int64_t k = p % result.run * kSumLanes + p / result.run;
        result.columns.push_back(k < columns ? static_cast<int32_t>(k) : -1);
      }
      break;
    case SumOrder::kBlocks:
      result.run = kSumBlock;
      break;
    case SumOrder::kHalves:
      result.run = columns - columns / 2;
      break;
  }
  return result;
}

ChainOrder double_chain_order(int64_t columns) {
  return {.columns = {}, .places = columns, .run = kDoubleRun};
}

template <typename T>
size_t chain_input_bytes(int64_t rows, const ChainOrder& order) {
  return static_cast<size_t>(rows * order.places) * sizeof(T);
}

template <typename T>
void pack_chain_input(Isa isa, const ChainInput& input, std::byte* packed, const Worker& worker) {
  const int64_t tile = Tiles<T>(isa).height;
  const int64_t columns = input.columns;
  const ChainOrder& order = *input.order;
  std::vector<double> rounded(input.round_row ? static_cast<size_t>(tile * columns) : 0);
  const auto [begin, end] = worker.slice(input.rows, tile);
  for (int64_t m = begin; m < end; m += tile) {
    const int64_t height = std::min(tile, input.rows - m);
    const double* x = input.x + m * columns;
    if (input.round_row) {
      std::copy_n(x, height * columns, rounded.begin());
      x = rounded.data();
      for (int64_t r = 0; r < height; ++r) {
        input.round_row(std::span(rounded).subspan(static_cast<size_t>(r * columns),
                                                   static_cast<size_t>(columns)));
      }
    }
    T* out = reinterpret_cast<T*>(packed) + m * order.places;
    for (int64_t p = 0; p < order.places; ++p) {
      const int64_t k = order.columns.empty() ? p : order.columns[static_cast<size_t>(p)];
      for (int64_t r = 0; r < height; ++r) {
        *out++ = k < 0 ? T{} : static_cast<T>(x[r * columns + k]);
      }
    }
  }
}

template <typename T>
size_t chain_scratch_bytes(int64_t columns, const ChainOrder& order) {
  return Layout<T>(columns, order).bytes();
}

template <typename T>
void chain_product(Isa isa, const ChainProduct<T>& product, const Worker& worker) {
  const Tiles<T> tiles(isa);
  const Scratch<T> scratch(product.scratch, product.columns, *product.order);
  const auto [first, last] = worker.slice(product.outputs, kPanel);
  for (int64_t n = first; n < last; n += scratch.panel_count * kPanel) {
    const int64_t panels = std::min(scratch.panel_count, ceil_div(last - n, kPanel));
    for (int64_t j = 0; j < panels; ++j) {
      fill_panel(product, n + j * kPanel, scratch, scratch.panels + j * scratch.panel_size);
    }
    const int64_t count = std::min(panels * kPanel, last - n);
    for (int64_t m = 0; m < product.rows; m += kRowsAtOnce) {
      const int64_t end = std::min(product.rows, m + kRowsAtOnce);
      multiply(tiles, product, scratch, m, end, panels);
      for (int64_t r = m; r < end; ++r) {
        product.finish(r, n,
                       {scratch.sums + (r - m) * panels * kPanel, static_cast<size_t>(count)});
      }
    }
  }
}

#define MAINSTEM_INSTANTIATE(T)                                                         \
  template size_t chain_input_bytes<T>(int64_t, const ChainOrder&);                     \
  template void pack_chain_input<T>(Isa, const ChainInput&, std::byte*, const Worker&); \
  template size_t chain_scratch_bytes<T>(int64_t, const ChainOrder&);                   \
  template void chain_product<T>(Isa, const ChainProduct<T>&, const Worker&);
MAINSTEM_INSTANTIATE(float)
MAINSTEM_INSTANTIATE(double)
#undef MAINSTEM_INSTANTIATE

}  // namespace mainstem::kernels
