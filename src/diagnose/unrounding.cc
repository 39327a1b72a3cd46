#include "diagnose/unrounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <span>

#include "kernels/reference/arithmetic.h"

namespace mainstem {
namespace {

/// Some number that may have been rounded to this one; kDigits binary ones behind the point.
template <int kDigits, uint64_t kSeed>
double jitter(double x, size_t at) {
  if (x == 0 || !std::isfinite(x)) return x;
  // Any bits do that have nothing to do with the size of the number.
  uint64_t bits = (std::bit_cast<uint64_t>(x) + kSeed + at * 64) * 0x9E3779B97F4A7C15ULL;
  bits = (bits ^ (bits >> 29)) * 0xBF58476D1CE4E5B9ULL;
  const double part = static_cast<double>(bits >> 11) * 0x1p-53 - 0.5;
  return x + std::ldexp(part, std::ilogb(x) - kDigits);
}

template <int kDigits>
constexpr ChangeOfValue kJitters[Unrounding::kVariants] = {jitter<kDigits, 1>, jitter<kDigits, 2>,
                                                           jitter<kDigits, 3>, jitter<kDigits, 4>,
                                                           jitter<kDigits, 5>, jitter<kDigits, 6>};

/// The type that a value is rounded to; nothing: none that counts. That its numbers happen to lie
/// on the grid of a lower type says nothing: rows of a table do, and are what was computed with.
std::optional<ArithmeticType> stored_type(const AlignedValue& value, ArithmeticType arithmetic) {
  if (arithmetic == ArithmeticType::kQ8Act) return {};
  if (arithmetic == ArithmeticType::kBF16 || value.dtype == DType::kBF16) {
    return ArithmeticType::kBF16;
  }
  if (arithmetic == ArithmeticType::kF16 || value.dtype == DType::kF16) return ArithmeticType::kF16;
  const bool wider = arithmetic == ArithmeticType::kF64 && value.dtype == DType::kF32;
  return wider ? std::optional(ArithmeticType::kF32) : std::nullopt;
}

/// Do all values lie on the grid of the type?
bool on_grid(std::span<const double> values, ArithmeticType type) {
  bool any = false;
  for (double v : values) {
    if (v == 0 || !std::isfinite(v)) continue;
    if (stored_in(type, v) != v) return false;
    any = any || (v != 1 && v != -1);
  }
  return any;
}

}  // namespace

Unrounding::Unrounding(const Aligned& aligned, ArithmeticType arithmetic)
    : arithmetic_(arithmetic),
      empty_(std::none_of(
          aligned.values.begin(), aligned.values.end(),
          [&](const AlignedValue& value) { return stored_type(value, arithmetic).has_value(); })) {}

ChangeOfValue Unrounding::before(const AlignedValue& value, int variant) const {
  const auto type = stored_type(value, arithmetic_);
  if (!type) return nullptr;
  if (*type == ArithmeticType::kF32) return kJitters<23>[variant];
  return *type == ArithmeticType::kF16 ? kJitters<10>[variant] : kJitters<7>[variant];
}

double stored_in(ArithmeticType type, double number) {
  const auto narrow = static_cast<float>(number);
  if (type == ArithmeticType::kF32) return narrow;
  const auto storage =
      type == ArithmeticType::kBF16 ? reference::Storage::kBF16 : reference::Storage::kF16;
  return reference::round_to(storage, narrow);
}

bool is_stored_in(ArithmeticType type, const AlignedValue& value) {
  return info(value.dtype).name == name(type) || on_grid(value.data, type);
}

}  // namespace mainstem
