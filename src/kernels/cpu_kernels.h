#pragma once

// The fast float32 kernels: one table of functions per instruction set, chosen once at run time.
// Every function takes a Worker and slices its own work; none allocates or throws. The order of
// every reduction depends on shapes and instruction set only, never on the number of workers.
// The plain-loop twins of these are in kernels/reference/.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/isa.h"
#include "mainstem/activation.h"
#include "mainstem/tensor.h"
#include "mainstem/threads.h"

namespace mainstem::kernels {

// ---------------------------------------------------------------- weights

/// How a weight matrix [N, K] (N output rows, K inputs) lies in memory.
/// Panel formats interleave kPanelRows output rows: one vector register holds the same column of
/// 16 rows. Rows are padded with zeros to whole panels.
enum class PackFormat : uint8_t {
  kPlain,  ///< row-major in any DType, as a file or a caller has it; expanded tile by tile
  kF32,    ///< [panel][k][16] float
  kF16,    ///< [panel][k][16] half bits
  kBF16,   ///< [panel][k][16] bfloat16 bits
  kQ4_0,   ///< per panel and 32 columns: 16 f16 scales, then the nibbles interleaved
  kQ4_1,   ///< same with 16 f16 minima after the scales
  kQ8_0,   ///< per panel and 32 columns: 16 f16 scales, then 32 x 16 bytes interleaved
};
inline constexpr int kPanelRows = 16;
/// Widest head that a rotary epilogue takes.
inline constexpr int64_t kMaxRotaryHeadWidth = 512;

struct WeightMatrix {
  PackFormat format = PackFormat::kPlain;
  DType dtype = DType::kF32;  ///< of the plain data
  int64_t rows = 0;           ///< N
  int64_t columns = 0;        ///< K
  const std::byte* data = nullptr;
  size_t stride_bytes = 0;  ///< of one panel, or of one row when plain
};

/// The panel format that holds `dtype` without changing a value, or kPlain where none does.
PackFormat pack_format_for(DType dtype);
/// Bytes of the packed form (0 for kPlain).
size_t packed_bytes(PackFormat format, int64_t rows, int64_t columns);
/// Packs `source` [N, K] into `out`. `row_order[n]` names the source row of packed row n; empty
/// means as they stand. Values are kept bit for bit (q, scale and minimum too).
WeightMatrix pack_weights(const TensorView& source, PackFormat format,
                          std::span<const int64_t> row_order, std::byte* out, const Worker& worker);
/// Row n of the matrix as float32, exactly (for embeddings and tests).
void unpack_row(const WeightMatrix& weights, int64_t row, float* out);

// ---------------------------------------------------------------- matrix products

/// A norm applied to each input row while it is packed.
struct NormPrologue {
  bool layer_norm = false;  ///< subtract the mean first
  float eps = 0;
  float weight_offset = 0;        ///< multiply by (offset + weight)
  const float* weight = nullptr;  ///< [K] or null (all ones)
  const float* bias = nullptr;    ///< [K] or null
};

/// Input rows of a product.
struct GemmInput {
  const float* x = nullptr;
  int64_t stride = 0;   ///< floats between rows
  int64_t rows = 0;     ///< M
  int64_t columns = 0;  ///< K
  const NormPrologue* norm = nullptr;
};

/// float32 keeps the inputs; int8 rounds them to 8 bits per 32 columns (only for parts whose
/// weights are quantised; others in the same product read the float32 copy).
enum class InputPrecision : uint8_t { kF32, kInt8 };

/// Rotary angles of the rows of a pass: cosine and sine [M, width/2].
struct RotaryTable {
  const float* cosine = nullptr;
  const float* sine = nullptr;
  int64_t width = 0;         ///< channels of a head that turn, from channel 0; even
  bool interleaved = false;  ///< pairs (2j, 2j+1), else (j, j + width/2)
};

/// What happens to an output tile before it is stored, in order. `n` counts the part's columns.
struct EpilogueOp {
  enum class Kind : uint8_t {
    kBias,        ///< y[m,n] += vector[n]
    kScale,       ///< y *= scalar
    kSoftCap,     ///< y = scalar tanh(y / scalar)
    kActivation,  ///< y = activation(y)
    kGate,        ///< y = activation(y) * value[m,n], value from the part's second matrix
    kRotary,      ///< every head of head_width columns is rotated by its row's angles
    kAddRows,     ///< y[m,n] += rows[m * stride + n]
  };
  Kind kind = Kind::kBias;
  Activation activation = Activation::kSilu;
  float scalar = 1;
  const float* vector = nullptr;
  const float* value_bias = nullptr;  ///< kGate: bias of the second matrix, or null
  const float* rows = nullptr;
  int64_t stride = 0;
  const RotaryTable* rotary = nullptr;
  int64_t head_width = 0;
};

/// Where a part's tile goes: plain rows, or through one pointer per row into a cache, where
/// column n of row m lands at row_pointers[m][(n / head_width) * head_stride +
/// (n % head_width) * element_stride]. Both may be given.
struct GemmOutput {
  float* y = nullptr;
  int64_t stride = 0;
  float* const* row_pointers = nullptr;
  int64_t head_width = 0, head_stride = 0, element_stride = 0;
};

/// Rows [row_begin, row_begin + rows) of a matrix become columns of an output. With kGate the
/// same rows of `value` are computed beside them.
struct GemmPart {
  const WeightMatrix* weight = nullptr;
  const WeightMatrix* value = nullptr;
  int64_t row_begin = 0;
  int64_t value_row_begin = 0;
  int64_t rows = 0;
  std::span<const EpilogueOp> epilogue = {};
  GemmOutput output = {};
};

// ---------------------------------------------------------------- attention

/// Keys and values of one sequence in one layer, as the cache holds them, in blocks of 16
/// positions: key (s, g, e) at (s/16)*(K*E*16) + g*(E*16) + e*16 + s%16, value (s, g, e) at
/// (s/16)*(K*E*16) + g*(E*16) + (s%16)*E + e. The tail of the last block is allocated; its
/// contents are never used.
inline constexpr int kKeyBlock = 16;

struct AttentionSequence {
  int64_t row_begin = 0;  ///< first row of q and of the output
  int64_t rows = 0;
  const float* keys = nullptr;
  const float* values = nullptr;
};

/// Half-open range of keys a row may see; empty gives zeros.
struct KeyRange {
  int64_t begin = 0, end = 0;
};

struct AttentionArgs {
  int64_t heads = 0, kv_heads = 0, head_width = 0;  ///< query head h reads kv head h / (H/K)
  float scale = 1;
  float soft_cap = 0;                   ///< 0: none; else cap * tanh(score / cap)
  const float* alibi_slopes = nullptr;  ///< [H]: score += slope * key position, after scale and cap
  std::span<const AttentionSequence> sequences = {};
  const KeyRange* ranges = nullptr;  ///< one per row
  const float* q = nullptr;          ///< [M, H*E]
  int64_t q_stride = 0;
  float* out = nullptr;  ///< [M, H*E]
  int64_t out_stride = 0;
  /// One memory for all workers of the run: attention_scratch_bytes(args, workers) bytes, 64-byte
  /// aligned. Workers exchange partial results through it.
  std::byte* scratch = nullptr;
};

// ---------------------------------------------------------------- the table

struct CpuKernels {
  Isa isa;

  /// Bytes that pack_input needs for M rows of K columns.
  size_t (*packed_input_bytes)(int64_t rows, int64_t columns, InputPrecision precision);
  /// Applies the norm and lays the rows out for gemm; rows are shared among the workers (call
  /// with Worker::alone() to pack for oneself). The caller synchronises before gemm.
  void (*pack_input)(const GemmInput& input, InputPrecision precision, std::byte* packed,
                     const Worker& worker);
  size_t (*gemm_scratch_bytes)(int64_t rows, int64_t columns);  ///< per worker
  /// All parts on one packed input; output columns are shared among the workers.
  void (*gemm)(const std::byte* packed, int64_t rows, int64_t columns, InputPrecision precision,
               std::span<const GemmPart> parts, std::byte* scratch, const Worker& worker);

  /// Depends on the rows of the sequences and on the widths, not on ranges or pointers.
  size_t (*attention_scratch_bytes)(const AttentionArgs& args, int workers);
  /// All workers of the run must call it (it may synchronise them).
  void (*attention)(const AttentionArgs& args, const Worker& worker);

  /// Row-wise functions; rows are shared among the workers. In-place is allowed.
  void (*norm)(const GemmInput& input, float* y, int64_t y_stride, const Worker& worker);
  void (*activation)(Activation kind, const float* x, float* y, int64_t count,
                     const Worker& worker);
  void (*multiply)(const float* a, const float* b, float* y, int64_t count, const Worker& worker);
  void (*add)(const float* a, const float* b, float* y, int64_t count, const Worker& worker);
  void (*scale)(float factor, const float* x, float* y, int64_t count, const Worker& worker);
  /// x, y [M, heads*head_width] with the given strides.
  void (*rotary)(const RotaryTable& table, int64_t rows, int64_t heads, int64_t head_width,
                 const float* x, int64_t x_stride, float* y, int64_t y_stride,
                 const Worker& worker);
  /// y[m, i] = exp(x[m, i] - max) / sum, over rows of `columns`.
  void (*softmax)(const float* x, float* y, int64_t rows, int64_t columns, const Worker& worker);
};

/// The table of one level; a level that available_isas() does not list must not be run.
const CpuKernels& cpu_kernels(Isa isa);
/// The table of active_isa().
const CpuKernels& cpu_kernels();

// ---------------------------------------------------------------- measured limits

/// Peaks of this machine with `threads` threads: what benchmarks are compared with.
struct MachineLimits {
  double f32_gflops = 0;   ///< fused multiply-adds, widest registers
  double f64_gflops = 0;   ///< the same in double
  double int8_gops = 0;    ///< 8-bit dot products (0: none)
  double bf16_gflops = 0;  ///< bfloat16 dot products (0: none)
  double read_gb_s = 0;    ///< reading memory far larger than the caches
};
MachineLimits measure_limits(int threads);

}  // namespace mainstem::kernels
