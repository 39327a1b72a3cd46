#pragma once

#include <cstddef>

namespace mainstem {

inline constexpr int kBoxMullerGroup = 16;

/// Turns groups of 16 uniforms in [0, 1) into 16 normals each, in place: element j < 8 and element
/// j + 8 make one pair of the Box-Muller transform. Bit for bit torch's values on a processor with
/// AVX2, on every processor.
void box_muller(float* values, size_t groups);
/// The same bits without instructions that a processor may lack.
void box_muller_portable(float* values, size_t groups);
/// By the C library's logarithm, sine and cosine, as torch does for double.
void box_muller(double* values, size_t groups);

}  // namespace mainstem
