#pragma once

// A tensor that a fuzz target made, as a stored array and as llama.cpp prints it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mainstem/sites.h"
#include "mainstem/tensor.h"

namespace mainstem::fuzz {

/// A tensor as somebody's program may have written it.
struct MadeTensor {
  std::string name, op;
  std::vector<std::string> operands;
  Shape shape;
  std::vector<double> data;
  DType dtype = DType::kF64;
  std::optional<SiteId> faithful;  ///< it is that value under our name, in our layout
  bool whole = true;               ///< and no number of it was changed
  bool not_finite = false;         ///< one became NaN or infinite
};

inline Tensor store(const MadeTensor& tensor) {
  Tensor stored(tensor.dtype, tensor.shape);
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    const double x = tensor.data[i];
    // Whole numbers as far as they are some.
    const double whole = std::isnan(x) ? 0 : std::clamp(x, -9.2e18, 9.2e18);
    switch (tensor.dtype) {
      case DType::kF64:
        stored.data<double>()[i] = x;
        break;
      case DType::kF32:
        stored.data<float>()[i] = static_cast<float>(x);
        break;
      case DType::kF16:
        stored.data<uint16_t>()[i] = f32_to_f16(static_cast<float>(x));
        break;
      case DType::kBF16:
        stored.data<uint16_t>()[i] = f32_to_bf16(static_cast<float>(x));
        break;
      case DType::kI64:
        stored.data<int64_t>()[i] = static_cast<int64_t>(whole);
        break;
      case DType::kI32:
        stored.data<int32_t>()[i] = static_cast<int32_t>(static_cast<int64_t>(whole));
        break;
      default:
        stored.data<uint8_t>()[i] = static_cast<int64_t>(whole) & 1 ? 1 : 0;
        break;
    }
  }
  return stored;
}

inline void print(std::string& text, const Shape& shape, const std::vector<double>& data,
                  size_t axis, int64_t outer) {
  const bool last = axis == 3;
  text += last ? "[ " : "[\n";
  for (int64_t i = 0; i < shape[axis]; ++i) {
    if (shape[axis] > 6 && i == 3) {
      text += last ? "..., " : "...,\n";
      i = shape[axis] - 3;
    }
    const int64_t at = outer * shape[axis] + i;
    if (!last) {
      print(text, shape, data, axis + 1, at);
      continue;
    }
    char number[400];
    std::snprintf(number, sizeof(number), "%12.4f, ", data[static_cast<size_t>(at)]);
    text += number;
  }
  text += axis == 1 ? "]\n" : "],\n";
}

/// As llama.cpp's callback prints it, three numbers at each end of an axis.
inline std::string as_text(std::span<const MadeTensor> tensors) {
  std::string text;
  for (const MadeTensor& tensor : tensors) {
    Shape shape = tensor.shape;
    while (shape.size() > 4) {
      shape[1] *= shape[0];
      shape.erase(shape.begin());
    }
    while (shape.size() < 4) shape.insert(shape.begin(), 1);
    const auto dims = [](const Shape& of) {
      std::string list = "{";
      for (size_t i = of.size(); i-- > 0;) list += std::to_string(of[i]) + (i > 0 ? ", " : "}");
      return list;
    };
    text += "common_debug_cb_eval: " + tensor.name + " = (f32) " + tensor.op + "(";
    for (const std::string& operand : tensor.operands) text += operand + dims({1, 1, 4, 4}) + ", ";
    text += "}) = " + dims(shape) + "\n";
    if (tensor.data.empty()) continue;
    for (int64_t block = 0; block < shape[0]; ++block) {
      print(text, shape, tensor.data, 1, block);
      text += "sum = 1.0\n";
    }
  }
  return text;
}

}  // namespace mainstem::fuzz
