#pragma once

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings.h"
#include "mainstem/tensor.h"

namespace mainstem::python {

/// Any array of numpy, torch or another library that speaks DLPack, in main memory; never copied.
using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;

/// One array as the package hands it over. numpy has no bfloat16, so an array of it comes as 16-bit
/// integers, and `dtype` says what they are.
struct NamedArray {
  std::string name;
  AnyArray array;
  std::optional<std::string> dtype;
};
NamedArray named_array(nb::handle tuple);

/// The array's memory. With `transposed` null an Error unless it is row-major and contiguous; else
/// a matrix may be column-major too, and its transpose is returned.
TensorView view_of(const NamedArray& named, bool* transposed = nullptr);

/// A numpy array over the tensor's memory, which the array keeps.
nb::object to_numpy(const Tensor& tensor);

}  // namespace mainstem::python
