#pragma once

#include <cstdint>
#include <string_view>

namespace mainstem {

/// The number type that an implementation keeps its values in, and what else it rounds.
enum class ArithmeticType : uint8_t {
  kF64,    ///< nothing is imitated
  kF32,    ///< values, weights and sums in float32
  kBF16,   ///< values and weights in bfloat16, sums in float32
  kF16,    ///< values and weights in float16, sums in float32
  kQ8Act,  ///< float32, but inputs of products rounded to 8 bits, as llama.cpp does it
};
std::string_view name(ArithmeticType type);  ///< "f64", "f32", "bf16", "f16", "q8act"
/// The type of that name; a usage Error lists them.
ArithmeticType parse_arithmetic(std::string_view text);

/// One way in which implementations of that type compute. They agree on what is stored and differ
/// in the order of sums and in what is rounded inside a step: where a norm casts, whether rotary
/// products, scores and patterns are stored, how an activation is composed, how precise exp is. No
/// two are right or wrong, and the largest of their errors says how much a sound implementation may
/// be off. Sums in 16 bits are no such way (but for llama.cpp's flash attention): they lie outside.
struct Arithmetic {
  ArithmeticType type = ArithmeticType::kF64;
  int variant = 0;  ///< 0 to arithmetic_variants(type) - 1
  bool operator==(const Arithmetic&) const = default;
};

/// How many there are; 1 for kF64.
int arithmetic_variants(ArithmeticType type);
/// One line: what the variant does and who computes so. A usage Error where there is no such one.
std::string_view describe(const Arithmetic& arithmetic);

}  // namespace mainstem
