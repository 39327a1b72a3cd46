#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem {

/// Element types of files and of memory. The quantised types hold blocks of weights along the
/// last dimension; their layouts are those of GGUF files.
enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

struct DTypeInfo {
  std::string_view name;  ///< "f32", "bf16", "q4_1", …
  int block_elements;     ///< elements that share one block; 1 for plain types
  int block_bytes;        ///< bytes of that block
  bool is_float;          ///< a plain floating-point type
  bool is_quantised;
};

/// All facts about a type; the table has a row for every enumerator.
const DTypeInfo& info(DType dtype);
std::string_view name(DType dtype);

/// Row-major, outermost dimension first, as in PyTorch.
using Shape = std::vector<int64_t>;

/// Product of the dimensions (1 for rank 0); an Error where it does not fit 63 bits or a
/// dimension is negative.
int64_t element_count(std::span<const int64_t> shape);
/// Bytes of a contiguous tensor; an Error where the last dimension does not fill whole blocks.
int64_t byte_count(DType dtype, std::span<const int64_t> shape);
/// "[2, 3, 4]"
std::string to_string(std::span<const int64_t> shape);

/// A contiguous row-major tensor that somebody else owns. Copying it copies no data.
class TensorView {
 public:
  TensorView() = default;
  /// `data` holds byte_count(dtype, shape) bytes at least.
  TensorView(DType dtype, Shape shape, const void* data);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(size_t axis) const { return shape_[axis]; }
  size_t rank() const { return shape_.size(); }
  int64_t count() const { return count_; }
  int64_t bytes() const { return bytes_; }
  const std::byte* data() const { return data_; }

  /// Leading dimensions folded: a [2,3,4] tensor has 6 rows of 4 columns; rank 0 is 1 x 1.
  int64_t rows() const;
  int64_t columns() const;
  /// Bytes of one row.
  int64_t row_bytes() const;
  /// Rows [begin, end) of the folded matrix, same bytes.
  TensorView row_range(int64_t begin, int64_t end) const;

  /// The elements in place, for data aligned to T. (Bytes of a mapped file may not be; read_row
  /// takes any address.)
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(count_)};
  }

 private:
  DType dtype_ = DType::kF32;
  Shape shape_{0};
  int64_t count_ = 0;
  int64_t bytes_ = 0;
  const std::byte* data_ = nullptr;
};

/// 64-byte aligned bytes, uninitialised or zeroed.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes, bool zeroed = false);
  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

/// A tensor with its own 64-byte aligned memory, zeroed at construction. Copies share it.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape);
  static Tensor from_f32(Shape shape, std::span<const float> values);
  static Tensor from_f64(Shape shape, std::span<const double> values);
  static Tensor from_i64(Shape shape, std::span<const int64_t> values);

  const TensorView& view() const { return view_; }
  const Shape& shape() const { return view_.shape(); }
  DType dtype() const { return view_.dtype(); }
  int64_t count() const { return view_.count(); }
  template <typename T>
  T* data() {
    return buffer_ ? buffer_->as<T>() : nullptr;
  }
  template <typename T>
  std::span<const T> as() const {
    return view_.as<T>();
  }

 private:
  std::shared_ptr<AlignedBuffer> buffer_;
  TensorView view_;
};

/// Values of one row of the folded matrix, widened or dequantised exactly as the type defines
/// (a float result is rounded once at most). Integer types and bool convert to numbers.
/// `out` holds columns() values.
void read_row(const TensorView& tensor, int64_t row, float* out);
void read_row(const TensorView& tensor, int64_t row, double* out);
/// Part of a row: columns [begin, end); for quantised types both are multiples of the block.
void read_row(const TensorView& tensor, int64_t row, int64_t begin, int64_t end, float* out);
void read_row(const TensorView& tensor, int64_t row, int64_t begin, int64_t end, double* out);

/// All values, widened.
std::vector<float> to_f32(const TensorView& tensor);
std::vector<double> to_f64(const TensorView& tensor);

float f16_to_f32(uint16_t bits);
float bf16_to_f32(uint16_t bits);
/// Round to nearest, ties to even; NaN stays NaN.
uint16_t f32_to_f16(float value);
uint16_t f32_to_bf16(float value);

}  // namespace mainstem
