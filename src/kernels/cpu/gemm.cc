// Products of packed inputs with weight panels: slicing, blocking and what happens to a tile
// before it is stored.

#include <cstring>

#include "kernels/cpu/drivers.h"
#include "kernels/cpu/plain_rows.h"

namespace mainstem::kernels {
namespace {

constexpr int64_t kUnitColumns = 64;     // output columns that are computed together
constexpr int64_t kTileFloats = 16384;   // one result tile in scratch
constexpr int64_t kRowStep = 12;         // a multiple of every tile height
constexpr int64_t kExpandColumns = 512;  // inputs per expanded stretch of panels
constexpr int64_t kPanelColumns = 2048;  // inputs per stretch of float32 panels
constexpr int64_t kWholeColumns = 3072;  // up to here panels are used in one stretch
static_assert(kTileFloats >= kRowStep * (kMaxRotaryHeadWidth + 2 * kPanelRows));

struct Scratch {
  explicit Scratch(std::byte* memory)
      : result(reinterpret_cast<float*>(memory)),
        value(result + kTileFloats),
        panels(value + kTileFloats),
        rows(panels + kMaxTilePanels * kExpandColumns * kPanelRows) {}
  static constexpr size_t kBytes =
      sizeof(float) *
      static_cast<size_t>(2 * kTileFloats + (kMaxTilePanels + 1) * kExpandColumns * kPanelRows);
  float* result;
  float* value;
  float* panels;
  float* rows;
};

bool is_quantised(PackFormat format) {
  switch (format) {
    case PackFormat::kQ4_0:
    case PackFormat::kQ4_1:
    case PackFormat::kQ8_0:
      return true;
    case PackFormat::kPlain:
    case PackFormat::kF32:
    case PackFormat::kF16:
    case PackFormat::kBF16:
      return false;
  }
  return false;
}

/// The product of one worker: everything that its units have in common.
class Product {
 public:
  Product(const MicroKernels& micro, const PackedInput& input, bool int8, std::byte* scratch)
      : micro_(micro), input_(input), int8_(int8), scratch_(scratch) {}

  /// Columns [begin, end) of a part.
  void run(const GemmPart& part, int64_t begin, int64_t end) {
    const int64_t unit = unit_columns(part);
    for (int64_t n = begin; n < end; n += unit) run_unit(part, n, std::min(unit, end - n));
  }

  static int64_t granule_columns(const GemmPart& part) {
    for (const EpilogueOp& op : part.epilogue) {
      if (op.kind == EpilogueOp::Kind::kRotary) return op.head_width;
    }
    return kPanelRows;
  }

 private:
  /// 16 rows of a matrix that cover the wanted ones, and where these start.
  struct Columns {
    const WeightMatrix* matrix;
    int64_t first_panel, panels, shift, stride;
  };

  static int64_t unit_columns(const GemmPart& part) {
    const int64_t granule = granule_columns(part);
    return granule >= kUnitColumns ? granule : kUnitColumns / granule * granule;
  }
  static Columns cover(const WeightMatrix* matrix, int64_t first_row, int64_t count) {
    const int64_t shift = first_row % kPanelRows;
    const int64_t panels = ceil_div(shift + count, kPanelRows);
    return {matrix, first_row / kPanelRows, panels, shift, panels * kPanelRows};
  }

  bool uses_int8(const WeightMatrix& w) const { return int8_ && is_quantised(w.format); }
  bool expands(const WeightMatrix& w) const {
    if (w.format == PackFormat::kF32 || uses_int8(w)) return false;
    return w.format == PackFormat::kPlain || input_.rows > kWidenInRegistersRows;
  }
  bool in_stretches(const WeightMatrix& w) const {
    if (uses_int8(w)) return false;
    return expands(w) || input_.columns > kWholeColumns;
  }

  void run_unit(const GemmPart& part, int64_t n, int64_t count) {
    const Columns main = cover(part.weight, part.row_begin + n, count);
    const bool gated = part.value != nullptr;
    const Columns beside = gated ? cover(part.value, part.value_row_begin + n, count) : Columns{};
    // Where panels are used in stretches many rows share each of them.
    const bool stretches = in_stretches(*part.weight) || (gated && in_stretches(*part.value));
    const int64_t fitting = kTileFloats / std::max(main.stride, beside.stride);
    const int64_t step = stretches ? std::max(kRowStep, fitting / kRowStep * kRowStep) : kRowStep;
    // Without an epilogue whole panels of plain rows need no scratch.
    const GemmOutput& to = part.output;
    const bool direct = part.epilogue.empty() && !gated && to.y != nullptr &&
                        to.row_pointers == nullptr && main.shift == 0 && main.stride == count;
    for (int64_t m = 0; m < input_.rows; m += step) {
      const int64_t rows = std::min(step, input_.rows - m);
      if (direct) {
        multiply(main, m, rows, to.y + m * to.stride + n, to.stride);
        continue;
      }
      multiply(main, m, rows, scratch_.result, main.stride);
      if (gated) multiply(beside, m, rows, scratch_.value, beside.stride);
      for (int64_t r = 0; r < rows; ++r) {
        finish_row(part, scratch_.result + r * main.stride + main.shift,
                   gated ? scratch_.value + r * beside.stride + beside.shift : nullptr, m + r, n,
                   count);
      }
    }
  }

  /// The epilogue of one row; its last step writes where the row goes, if it goes to plain rows.
  void finish_row(const GemmPart& part, float* x, float* v, int64_t m, int64_t n, int64_t count) {
    const GemmOutput& to = part.output;
    float* y = to.y == nullptr ? nullptr : to.y + m * to.stride + n;
    const size_t ops = part.epilogue.size();
    for (size_t i = 0; i < ops; ++i) {
      const bool last = i + 1 == ops && y != nullptr && to.row_pointers == nullptr;
      apply(part.epilogue[i], x, v, last ? y : x, m, n, count);
      if (last) return;
    }
    if (y != nullptr) std::memcpy(y, x, static_cast<size_t>(count) * sizeof(float));
    if (to.row_pointers != nullptr) put_by_pointer(to, x, m, n, count);
  }

  void multiply(const Columns& c, int64_t m, int64_t rows, float* out, int64_t stride) {
    for (int64_t p = 0; p < c.panels; p += kMaxTilePanels) {
      const auto panels = static_cast<int>(std::min<int64_t>(kMaxTilePanels, c.panels - p));
      float* to = out + p * kPanelRows;
      if (uses_int8(*c.matrix)) {
        multiply_int8(c, p, panels, m, rows, to, stride);
      } else {
        multiply_float(c, p, panels, m, rows, to, stride);
      }
    }
  }

  const std::byte* panel(const Columns& c, int64_t p) const {
    return c.matrix->data + (c.first_panel + p) * static_cast<int64_t>(c.matrix->stride_bytes);
  }

  void multiply_int8(const Columns& c, int64_t p, int panels, int64_t m, int64_t rows, float* out,
                     int64_t stride) {
    for (int64_t r = 0; r < rows;) {
      const PackedInput::Tile tile = input_.tile_of(m + r, micro_.int8.tile_rows);
      micro_.int8.int8_tile({.rows = static_cast<int>(tile.height),
                             .panels = panels,
                             .format = c.matrix->format,
                             .a = input_.tile_q(tile.begin),
                             .meta = input_.tile_meta(tile.begin),
                             .a_rows = tile.height,
                             .w = panel(c, p),
                             .panel_stride = c.matrix->stride_bytes,
                             .columns = input_.columns,
                             .c = out + r * stride,
                             .c_stride = stride});
      r += tile.height;
    }
  }

  void multiply_float(const Columns& c, int64_t p, int panels, int64_t m, int64_t rows, float* out,
                      int64_t stride) {
    const WeightMatrix& w = *c.matrix;
    const bool expand = expands(w);
    const int64_t stretch = expand            ? kExpandColumns
                            : in_stretches(w) ? kPanelColumns
                                              : input_.columns;
    for (int64_t k = 0; k < input_.columns; k += stretch) {
      const int64_t columns = std::min(stretch, input_.columns - k);
      FloatTile t{.panels = panels, .columns = columns, .c_stride = stride, .accumulate = k > 0};
      if (expand) {
        for (int i = 0; i < panels; ++i) {
          expand_panel(c, p + i, k, columns, scratch_.panels + i * kExpandColumns * kPanelRows);
        }
        t.w = reinterpret_cast<const std::byte*>(scratch_.panels);
        t.panel_stride = sizeof(float) * kExpandColumns * kPanelRows;
      } else {
        t.format = w.format;
        // A stretch of a quantised panel starts at a whole block.
        t.w = panel(c, p) + static_cast<int64_t>(w.stride_bytes) * k / input_.columns;
        t.panel_stride = w.stride_bytes;
      }
      for (int64_t r = 0; r < rows;) {
        const PackedInput::Tile tile = input_.tile_of(m + r, micro_.tile.tile_rows);
        t.rows = static_cast<int>(tile.height);
        t.a_block_stride = tile.height * kInputBlock;
        t.a = input_.tile_values(tile.begin) + k / kInputBlock * t.a_block_stride;
        t.c = out + r * stride;
        micro_.tile.float_tile(t);
        r += tile.height;
      }
    }
  }

  void expand_panel(const Columns& c, int64_t p, int64_t k, int64_t columns, float* out) {
    const WeightMatrix& w = *c.matrix;
    if (w.format != PackFormat::kPlain) {
      micro_.tile.expand_panel(w.format, panel(c, p), k, k + columns, out);
      return;
    }
    const int64_t first = (c.first_panel + p) * kPanelRows;
    const int64_t present = std::min<int64_t>(kPanelRows, w.rows - first);
    const std::byte* at = w.data + first * static_cast<int64_t>(w.stride_bytes);
    const bool aligned = reinterpret_cast<uintptr_t>(at) % alignof(float) == 0 &&
                         w.stride_bytes % sizeof(float) == 0;
    if (w.dtype == DType::kF32 && present == kPanelRows && aligned) {
      micro_.tile.transpose_rows(reinterpret_cast<const float*>(at) + k,
                                 static_cast<int64_t>(w.stride_bytes / sizeof(float)), columns,
                                 out);
      return;
    }
    for (int64_t r = 0; r < kPanelRows; ++r) {
      float* row = scratch_.rows + r * kExpandColumns;
      if (r < present) {
        read_plain_row(w, first + r, k, k + columns, row);
      } else {
        std::memset(row, 0, static_cast<size_t>(columns) * sizeof(float));
      }
    }
    micro_.tile.transpose_rows(scratch_.rows, kExpandColumns, columns, out);
  }

  void apply(const EpilogueOp& op, const float* x, float* v, float* y, int64_t m, int64_t n,
             int64_t count) {
    const RowKernels& rows = micro_.rows;
    switch (op.kind) {
      case EpilogueOp::Kind::kBias:
        rows.add(x, op.vector + n, y, count);
        return;
      case EpilogueOp::Kind::kScale:
        rows.scale(op.scalar, x, y, count);
        return;
      case EpilogueOp::Kind::kSoftCap:
        rows.soft_cap(op.scalar, x, y, count);
        return;
      case EpilogueOp::Kind::kActivation:
        rows.activation(op.activation, x, y, count);
        return;
      case EpilogueOp::Kind::kGate:
        if (op.value_bias != nullptr) rows.add(v, op.value_bias + n, v, count);
        rows.gate(op.activation, x, v, y, count);
        return;
      case EpilogueOp::Kind::kRotary: {
        const RotaryTable& table = *op.rotary;
        const int64_t pairs = table.width / 2;
        for (int64_t i = 0; i < count; i += op.head_width) {
          rows.rotary_head(x + i, y + i, table.cosine + m * pairs, table.sine + m * pairs,
                           op.head_width, table.width, table.interleaved);
        }
        return;
      }
      case EpilogueOp::Kind::kAddRows:
        rows.add(x, op.rows + m * op.stride + n, y, count);
        return;
    }
  }

  static void put_by_pointer(const GemmOutput& to, const float* y, int64_t m, int64_t n,
                             int64_t count) {
    float* row = to.row_pointers[m];
    for (int64_t i = 0; i < count;) {
      const int64_t head = (n + i) / to.head_width, e = (n + i) % to.head_width;
      const int64_t run = std::min(count - i, to.head_width - e);
      float* at = row + head * to.head_stride + e * to.element_stride;
      if (to.element_stride == 1) {
        std::memcpy(at, y + i, static_cast<size_t>(run) * sizeof(float));
      } else {
        for (int64_t j = 0; j < run; ++j) at[j * to.element_stride] = y[i + j];
      }
      i += run;
    }
  }

  const MicroKernels& micro_;
  const PackedInput input_;
  const bool int8_;
  const Scratch scratch_;
};

}  // namespace

size_t packed_input_bytes(int64_t rows, int64_t columns, InputPrecision precision) {
  const int64_t floats = rows * ceil_div(columns, kInputBlock) * kInputBlock;
  int64_t bytes = floats * static_cast<int64_t>(sizeof(float));
  if (packs_int8(precision, columns)) {
    bytes += round_up(rows * columns, 64) +
             rows * (columns / kQuantBlock) * static_cast<int64_t>(sizeof(QuantMeta));
  }
  return static_cast<size_t>(round_up(bytes, 64));
}

void pack_input(const MicroKernels& micro, const GemmInput& input, InputPrecision precision,
                std::byte* packed, const Worker& worker) {
  const PackedInput to(packed, input.rows, input.columns);
  const bool int8 = packs_int8(precision, input.columns);
  const auto mine = worker.slice(input.rows);
  for (int64_t m = mine.first; m < mine.second; ++m) {
    const PackedInput::Tile tile = to.tile_of(m, micro.tile.tile_rows);
    float* row = to.tile_values(tile.begin) + (m - tile.begin) * kInputBlock;
    const int64_t stride = tile.height * kInputBlock;
    micro.rows.norm_row(input.x + m * input.stride, input.columns, input.norm, row, stride);
    if (!int8) continue;
    const PackedInput::Tile small = to.tile_of(m, micro.int8.tile_rows);
    const int64_t r = m - small.begin;
    micro.rows.quantize_row(row, input.columns, stride, to.tile_q(small.begin) + r * kQuantBlock,
                            small.height * kQuantBlock, to.tile_meta(small.begin) + r,
                            small.height);
  }
}

size_t gemm_scratch_bytes(int64_t /*rows*/, int64_t /*columns*/) { return Scratch::kBytes; }

void gemm(const MicroKernels& micro, const std::byte* packed, int64_t rows, int64_t columns,
          InputPrecision precision, std::span<const GemmPart> parts, std::byte* scratch,
          const Worker& worker) {
  // The packed input is only read.
  const PackedInput input(const_cast<std::byte*>(packed), rows, columns);
  Product product(micro, input, packs_int8(precision, columns), scratch);

  // Work is counted in panels; a granule belongs to the worker in whose slice it starts.
  const auto cost_of = [](const GemmPart& part, int64_t granule) {
    return ceil_div(granule, kPanelRows) * (part.value != nullptr ? 2 : 1);
  };
  int64_t total = 0;
  for (const GemmPart& part : parts) {
    const int64_t granule = Product::granule_columns(part);
    total += ceil_div(part.rows, granule) * cost_of(part, granule);
  }
  const auto mine = worker.slice(total);
  int64_t base = 0;
  for (const GemmPart& part : parts) {
    const int64_t granule = Product::granule_columns(part);
    const int64_t cost = cost_of(part, granule);
    const int64_t granules = ceil_div(part.rows, granule);
    const auto first_from = [&](int64_t position) {
      return std::clamp<int64_t>(ceil_div(std::max<int64_t>(position - base, 0), cost), 0,
                                 granules);
    };
    const int64_t begin = first_from(mine.first) * granule;
    const int64_t end = std::min(part.rows, first_from(mine.second) * granule);
    if (begin < end) product.run(part, begin, end);
    base += granules * cost;
  }
}

}  // namespace mainstem::kernels
