#pragma once

#include <span>

#include "mainstem/tensor.h"

namespace mainstem::reference {

/// A row of a product's input as llama.cpp rounds it for weights of that type: to 8 bits in blocks
/// of 32 (k-quants: 256) for quantised ones, to the weights' own type for those of 16 bits, else
/// not at all. The scale of a block of 32 is float16 or float32, that of a block of 256 float32.
void round_product_input(DType weights, bool f16_block_scale, std::span<double> row);

}  // namespace mainstem::reference
