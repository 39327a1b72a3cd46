#pragma once

#include <cstdint>

namespace mainstem {

/// Element-wise functions of the MLP. Formulas: families of transformers' ACT2FN.
enum class Activation : uint8_t {
  kRelu,         ///< max(x, 0)
  kReluSquared,  ///< max(x, 0)^2
  kGeluErf,      ///< x/2 (1 + erf(x/sqrt 2))
  kGeluTanh,     ///< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kSilu,         ///< x sigmoid(x)
  kQuickGelu,    ///< x sigmoid(1.702 x)
};

}  // namespace mainstem
