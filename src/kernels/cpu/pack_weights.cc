#include <cstring>
#include <string>

#include "kernels/cpu/plain_rows.h"
#include "kernels/cpu_kernels.h"
#include "mainstem/error.h"
#include "tensor/block_formats.h"

namespace mainstem::kernels {
namespace {

constexpr int64_t kBlock = 32;

bool is_block_format(PackFormat format) {
  return format == PackFormat::kQ4_0 || format == PackFormat::kQ4_1 || format == PackFormat::kQ8_0;
}

/// Where the parts of one quantised block lie, in the file and in a panel.
struct BlockLayout {
  int64_t source_bytes;  ///< of one block of one row
  int64_t scales;        ///< f16 values in front of the weights: d, then m
  int64_t words;         ///< 4-byte words of weights
  uint32_t flip;         ///< signed bytes are stored with 128 added

  int64_t panel_bytes() const { return kPanelRows * (2 * scales + 4 * words); }
};

BlockLayout layout_of(PackFormat format) {
  switch (format) {
    case PackFormat::kQ4_0:
      return {18, 1, 4, 0};
    case PackFormat::kQ4_1:
      return {20, 2, 4, 0};
    case PackFormat::kQ8_0:
      return {34, 1, 8, 0x80808080u};
    case PackFormat::kPlain:
    case PackFormat::kF32:
    case PackFormat::kF16:
    case PackFormat::kBF16:
      break;
  }
  throw internal_error("block layout of a format without blocks");
}

int64_t element_bytes(PackFormat format) { return format == PackFormat::kF32 ? 4 : 2; }

DType source_type(PackFormat format) {
  switch (format) {
    case PackFormat::kPlain:
      break;
    case PackFormat::kF32:
      return DType::kF32;
    case PackFormat::kF16:
      return DType::kF16;
    case PackFormat::kBF16:
      return DType::kBF16;
    case PackFormat::kQ4_0:
      return DType::kQ4_0;
    case PackFormat::kQ4_1:
      return DType::kQ4_1;
    case PackFormat::kQ8_0:
      return DType::kQ8_0;
  }
  throw internal_error("packing into the plain format");
}

int64_t panel_bytes(PackFormat format, int64_t columns) {
  if (is_block_format(format)) return columns / kBlock * layout_of(format).panel_bytes();
  return columns * kPanelRows * element_bytes(format);
}

void pack_blocks(const BlockLayout& layout, const std::byte* row, int64_t blocks, int lane,
                 std::byte* panel) {
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t s = 0; s < layout.scales; ++s) {
      std::memcpy(panel + 2 * (kPanelRows * s + lane), row + 2 * s, 2);
    }
    std::byte* q = panel + 2 * kPanelRows * layout.scales;
    for (int64_t w = 0; w < layout.words; ++w) {
      uint32_t word;
      std::memcpy(&word, row + 2 * layout.scales + 4 * w, 4);
      word ^= layout.flip;
      std::memcpy(q + 4 * (kPanelRows * w + lane), &word, 4);
    }
    row += layout.source_bytes;
    panel += layout.panel_bytes();
  }
}

void pack_elements(const std::byte* row, int64_t columns, int64_t bytes, int lane,
                   std::byte* panel) {
  for (int64_t k = 0; k < columns; ++k) {
    std::memcpy(panel + (k * kPanelRows + lane) * bytes, row + k * bytes,
                static_cast<size_t>(bytes));
  }
}

template <typename T>
T read_at(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

void unpack_blocks(PackFormat format, const std::byte* panel, int64_t blocks, int lane,
                   float* out) {
  const BlockLayout layout = layout_of(format);
  const bool nibbles = format != PackFormat::kQ8_0;
  const float zero = format == PackFormat::kQ4_0 ? 8.0f : nibbles ? 0.0f : 128.0f;
  for (int64_t b = 0; b < blocks; ++b, out += kBlock, panel += layout.panel_bytes()) {
    const float d = f16_to_f32(read_at<uint16_t>(panel + 2 * lane));
    const float m =
        layout.scales == 2 ? f16_to_f32(read_at<uint16_t>(panel + 2 * (kPanelRows + lane))) : 0.0f;
    const std::byte* q = panel + 2 * kPanelRows * layout.scales;
    for (int j = 0; j < kBlock; ++j) {
      const int at = nibbles ? j % 16 : j;
      int byte = static_cast<int>(q[4 * (kPanelRows * (at / 4) + lane) + at % 4]);
      if (nibbles) byte = j < 16 ? byte & 15 : byte >> 4;
      const float scaled = d * (static_cast<float>(byte) - zero);
      out[j] = layout.scales == 2 ? scaled + m : scaled;
    }
  }
}

}  // namespace

PackFormat pack_format_for(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return PackFormat::kF32;
    case DType::kF16:
      return PackFormat::kF16;
    case DType::kBF16:
      return PackFormat::kBF16;
    case DType::kQ4_0:
      return PackFormat::kQ4_0;
    case DType::kQ4_1:
      return PackFormat::kQ4_1;
    case DType::kQ8_0:
      return PackFormat::kQ8_0;
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kU16:
    case DType::kI16:
    case DType::kU32:
    case DType::kI32:
    case DType::kU64:
    case DType::kI64:
    case DType::kF64:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return PackFormat::kPlain;
  }
  return PackFormat::kPlain;
}

size_t packed_bytes(PackFormat format, int64_t rows, int64_t columns) {
  if (format == PackFormat::kPlain) return 0;
  const int64_t panels = (rows + kPanelRows - 1) / kPanelRows;
  return static_cast<size_t>(panels * panel_bytes(format, columns));
}

WeightMatrix pack_weights(const TensorView& source, PackFormat format,
                          std::span<const int64_t> row_order, std::byte* out,
                          const Worker& worker) {
  const DType wanted = source_type(format);
  if (source.dtype() != wanted && format != PackFormat::kF32) {
    throw internal_error("packing " + std::string(name(source.dtype())) + " as " +
                         std::string(name(wanted)));
  }
  const int64_t rows = row_order.empty() ? source.rows() : static_cast<int64_t>(row_order.size());
  const int64_t columns = source.columns();
  for (const int64_t row : row_order) {
    if (row < 0 || row >= source.rows()) throw internal_error("row order names a missing row");
  }
  const int64_t stride = panel_bytes(format, columns);
  const int64_t panels = (rows + kPanelRows - 1) / kPanelRows;
  const auto mine = worker.slice(panels);
  std::vector<float> widened;
  for (int64_t p = mine.first; p < mine.second; ++p) {
    std::byte* panel = out + p * stride;
    for (int lane = 0; lane < kPanelRows; ++lane) {
      const int64_t n = p * kPanelRows + lane;
      if (n >= rows) {
        // Rows of zeros fill the last panel: zero scales, minima and values.
        const std::vector<std::byte> zeros(static_cast<size_t>(columns) * sizeof(float));
        if (is_block_format(format)) {
          pack_blocks(layout_of(format), zeros.data(), columns / kBlock, lane, panel);
        } else {
          pack_elements(zeros.data(), columns, element_bytes(format), lane, panel);
        }
        continue;
      }
      const int64_t from = row_order.empty() ? n : row_order[static_cast<size_t>(n)];
      const std::byte* row = source.data() + from * source.row_bytes();
      if (is_block_format(format)) {
        pack_blocks(layout_of(format), row, columns / kBlock, lane, panel);
      } else if (source.dtype() == wanted) {
        pack_elements(row, columns, element_bytes(format), lane, panel);
      } else {
        widened.resize(static_cast<size_t>(columns));
        read_row(source, from, widened.data());
        pack_elements(reinterpret_cast<const std::byte*>(widened.data()), columns, 4, lane, panel);
      }
    }
  }
  return {.format = format,
          .dtype = source.dtype(),
          .rows = rows,
          .columns = columns,
          .data = out,
          .stride_bytes = static_cast<size_t>(stride)};
}

void unpack_row(const WeightMatrix& weights, int64_t row, float* out) {
  const int lane = static_cast<int>(row % kPanelRows);
  const std::byte* panel =
      weights.data + row / kPanelRows * static_cast<int64_t>(weights.stride_bytes);
  switch (weights.format) {
    case PackFormat::kPlain:
      read_plain_row(weights, row, 0, weights.columns, out);
      return;
    case PackFormat::kF32:
      for (int64_t k = 0; k < weights.columns; ++k) {
        out[k] = read_at<float>(panel + 4 * (k * kPanelRows + lane));
      }
      return;
    case PackFormat::kF16:
    case PackFormat::kBF16:
      for (int64_t k = 0; k < weights.columns; ++k) {
        const auto bits = read_at<uint16_t>(panel + 2 * (k * kPanelRows + lane));
        out[k] = weights.format == PackFormat::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
      }
      return;
    case PackFormat::kQ4_0:
    case PackFormat::kQ4_1:
    case PackFormat::kQ8_0:
      unpack_blocks(weights.format, panel, weights.columns / kBlock, lane, out);
      return;
  }
}

void read_plain_row(const WeightMatrix& weights, int64_t row, int64_t begin, int64_t end,
                    float* out) {
  const std::byte* at = weights.data + row * static_cast<int64_t>(weights.stride_bytes);
  const int64_t count = end - begin;
  if (weights.dtype == DType::kF32) {
    std::memcpy(out, at + 4 * begin, static_cast<size_t>(count) * 4);
  } else if (weights.dtype == DType::kF16) {
    for (int64_t k = 0; k < count; ++k)
      out[k] = f16_to_f32(read_at<uint16_t>(at + 2 * (begin + k)));
  } else if (weights.dtype == DType::kBF16) {
    for (int64_t k = 0; k < count; ++k) {
      out[k] = bf16_to_f32(read_at<uint16_t>(at + 2 * (begin + k)));
    }
  } else if (const DTypeInfo& type = info(weights.dtype); type.is_quantised) {
    dequantize_blocks(weights.dtype, at + begin / type.block_elements * type.block_bytes,
                      count / type.block_elements, out);
  } else {
    // Rare types. The view's shape is a vector: the only allocation inside a product.
    read_row(TensorView(weights.dtype, {1, weights.columns}, at), 0, begin, end, out);
  }
}

}  // namespace mainstem::kernels
