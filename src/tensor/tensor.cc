#include "mainstem/tensor.h"

#include <cstdlib>
#include <cstring>

#include "base/checked.h"
#include "mainstem/error.h"

namespace mainstem {

TensorView::TensorView(DType dtype, Shape shape, const void* data)
    : dtype_(dtype),
      shape_(std::move(shape)),
      count_(element_count(shape_)),
      bytes_(byte_count(dtype_, shape_)),
      data_(static_cast<const std::byte*>(data)) {}

int64_t TensorView::rows() const {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape_.size(); ++i) rows *= shape_[i];
  return rows;
}

int64_t TensorView::columns() const { return shape_.empty() ? 1 : shape_.back(); }

int64_t TensorView::row_bytes() const {
  const DTypeInfo& type = info(dtype_);
  return columns() / type.block_elements * type.block_bytes;
}

TensorView TensorView::row_range(int64_t begin, int64_t end) const {
  if (begin < 0 || end < begin || end > rows()) {
    throw internal_error("rows [" + std::to_string(begin) + ", " + std::to_string(end) +
                         ") asked of a tensor with " + std::to_string(rows()));
  }
  // Rows of an empty tensor may have no memory at all.
  const std::byte* first = bytes_ == 0 ? data_ : data_ + begin * row_bytes();
  return {dtype_, {end - begin, columns()}, first};
}

namespace {

constexpr size_t kAlignment = 64;

}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes, bool zeroed) : size_(bytes) {
  if (bytes == 0) return;
  // Whole cache lines, so that a vector load of the last elements stays inside.
  const size_t lines_bytes = checked_add(bytes, kAlignment - 1, "buffer size") & ~(kAlignment - 1);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, lines_bytes));
  if (memory == nullptr) {
    throw usage_error("memory", std::to_string(bytes) + " more bytes", "none from the system");
  }
  data_.reset(memory);
  if (zeroed) std::memset(memory, 0, lines_bytes);
}

void AlignedBuffer::Free::operator()(std::byte* p) const { std::free(p); }

Tensor::Tensor(DType dtype, Shape shape) {
  const int64_t bytes = byte_count(dtype, shape);
  buffer_ = std::make_shared<AlignedBuffer>(static_cast<size_t>(bytes), true);
  view_ = TensorView(dtype, std::move(shape), buffer_->data());
}

namespace {

template <typename T>
Tensor tensor_from(DType dtype, Shape shape, std::span<const T> values) {
  const int64_t count = element_count(shape);
  if (static_cast<size_t>(count) != values.size()) {
    throw usage_error("values for shape " + to_string(shape), std::to_string(count),
                      std::to_string(values.size()));
  }
  Tensor tensor(dtype, std::move(shape));
  if (!values.empty()) std::memcpy(tensor.data<T>(), values.data(), values.size_bytes());
  return tensor;
}

}  // namespace

Tensor Tensor::from_f32(Shape shape, std::span<const float> values) {
  return tensor_from(DType::kF32, std::move(shape), values);
}

Tensor Tensor::from_f64(Shape shape, std::span<const double> values) {
  return tensor_from(DType::kF64, std::move(shape), values);
}

Tensor Tensor::from_i64(Shape shape, std::span<const int64_t> values) {
  return tensor_from(DType::kI64, std::move(shape), values);
}

}  // namespace mainstem
