#include "arrays.h"

#include <array>

#include "mainstem/error.h"

namespace mainstem::python {
namespace {

struct TypeRow {
  nb::dlpack::dtype_code code;
  uint8_t bits;
  DType dtype;
};
using Code = nb::dlpack::dtype_code;
constexpr std::array kTypes = {
    TypeRow{Code::Bool, 8, DType::kBool},    TypeRow{Code::UInt, 8, DType::kU8},
    TypeRow{Code::Int, 8, DType::kI8},       TypeRow{Code::UInt, 16, DType::kU16},
    TypeRow{Code::Int, 16, DType::kI16},     TypeRow{Code::UInt, 32, DType::kU32},
    TypeRow{Code::Int, 32, DType::kI32},     TypeRow{Code::UInt, 64, DType::kU64},
    TypeRow{Code::Int, 64, DType::kI64},     TypeRow{Code::Float, 16, DType::kF16},
    TypeRow{Code::Bfloat, 16, DType::kBF16}, TypeRow{Code::Float, 32, DType::kF32},
    TypeRow{Code::Float, 64, DType::kF64},
};

DType dtype_of(const NamedArray& named) {
  if (named.dtype == "bf16") return DType::kBF16;
  const nb::dlpack::dtype type = named.array.dtype();
  for (const TypeRow& row : kTypes) {
    if (type.code == static_cast<uint8_t>(row.code) && type.bits == row.bits && type.lanes == 1) {
      return row.dtype;
    }
  }
  throw bad_input(
      "type", "whole or floating-point numbers of 8 to 64 bits",
      "DLPack code " + std::to_string(type.code) + " of " + std::to_string(type.bits) + " bits")
      .in("'" + named.name + "'");
}

bool is_row_major(const AnyArray& array) {
  int64_t expected = 1;
  for (size_t axis = array.ndim(); axis-- > 0;) {
    const auto size = static_cast<int64_t>(array.shape(axis));
    if (size == 0) return true;
    if (size > 1 && array.stride(axis) != expected) return false;
    expected *= size;
  }
  return true;
}

nb::dlpack::dtype numpy_type(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype && dtype != DType::kBF16) {
      return {static_cast<uint8_t>(row.code), row.bits, 1};
    }
  }
  throw internal_error("a value of type " + std::string(name(dtype)) + " for numpy");
}

}  // namespace

NamedArray named_array(nb::handle tuple) {
  return {.name = nb::cast<std::string>(tuple[0]),
          .array = nb::cast<AnyArray>(tuple[1]),
          .dtype = nb::cast<std::optional<std::string>>(tuple[2])};
}

TensorView view_of(const NamedArray& named, bool* transposed) {
  Shape shape;
  for (size_t axis = 0; axis < named.array.ndim(); ++axis) {
    shape.push_back(static_cast<int64_t>(named.array.shape(axis)));
  }
  const DType dtype = dtype_of(named);
  if (transposed != nullptr) *transposed = false;
  if (!is_row_major(named.array)) {
    const bool column_major =
        shape.size() == 2 && named.array.stride(0) == 1 && named.array.stride(1) == shape[0];
    if (transposed == nullptr || !column_major) {
      throw bad_input("memory layout", "a contiguous array", "one with gaps or turned axes")
          .in("'" + named.name + "'")
          .hint("use numpy.ascontiguousarray or .contiguous(), and keep the result");
    }
    *transposed = true;
    std::swap(shape[0], shape[1]);
  }
  return {dtype, std::move(shape), named.array.data()};
}

nb::object to_numpy(const Tensor& tensor) {
  std::vector<size_t> shape(tensor.shape().begin(), tensor.shape().end());
  auto keep = new Tensor(tensor);  // shares the memory; the capsule deletes it
  const nb::capsule owner(keep, [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  return nb::cast(nb::ndarray<nb::numpy>(keep->data<std::byte>(), shape.size(), shape.data(), owner,
                                         nullptr, numpy_type(tensor.dtype())));
}

}  // namespace mainstem::python
