#include "kernels/reference/quantize.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/arithmetic.h"

namespace mainstem::reference {
namespace {

/// 8 bits and a scale: the largest magnitude becomes 127. (The integers are chosen before the scale
/// is rounded.)
void round_block(std::span<double> block, bool f16_scale) {
  float largest = 0;
  for (const double v : block) largest = std::max(largest, std::fabs(static_cast<float>(v)));
  const float scale = largest / 127;
  const float inverse = scale != 0 ? 1 / scale : 0;
  const float kept = f16_scale ? round_to(Storage::kF16, scale) : scale;
  for (double& v : block) {
    v = static_cast<double>(std::round(static_cast<float>(v) * inverse) * kept);
  }
}

}  // namespace

void round_product_input(DType weights, bool f16_block_scale, std::span<double> row) {
  const auto round_all = [&](Storage storage) {
    for (double& v : row) v = static_cast<double>(round_to(storage, static_cast<float>(v)));
  };
  if (weights == DType::kF16) return round_all(Storage::kF16);
  if (weights == DType::kBF16) return round_all(Storage::kBF16);
  const DTypeInfo& type = info(weights);
  if (!type.is_quantised) return;
  const auto block = static_cast<size_t>(type.block_elements);
  for (size_t begin = 0; begin < row.size(); begin += block) {
    round_block(row.subspan(begin, std::min(block, row.size() - begin)),
                f16_block_scale && block == 32);
  }
}

}  // namespace mainstem::reference
