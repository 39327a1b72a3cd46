#include "diagnose/unrounding.h"

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

DType dtype_of(ArithmeticType type) {
  switch (type) {
    case ArithmeticType::kF64:
      return DType::kF64;
    case ArithmeticType::kBF16:
      return DType::kBF16;
    case ArithmeticType::kF16:
      return DType::kF16;
    case ArithmeticType::kF32:
    case ArithmeticType::kQ8Act:
      break;
  }
  return DType::kF32;
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

Unrounding::Unrounding(const Aligned& aligned, ArithmeticType arithmetic) {
  for (const AlignedValue& value : aligned.values) {
    if (const auto type = stored_type(value, arithmetic)) {
      stored_.emplace(to_string(value.site), *type);
    }
  }
}

ChangeOfValue Unrounding::before(const AlignedValue& value, int variant) const {
  const auto found = stored_.find(to_string(value.site));
  if (found == stored_.end()) return nullptr;
  switch (found->second) {
    case ArithmeticType::kBF16:
      return kJitters<7>[variant];
    case ArithmeticType::kF16:
      return kJitters<10>[variant];
    case ArithmeticType::kF32:
      return kJitters<23>[variant];
    case ArithmeticType::kF64:
    case ArithmeticType::kQ8Act:
      return nullptr;
  }
  return nullptr;
}

double stored_in(ArithmeticType type, double number) {
  const auto narrow = static_cast<float>(number);
  if (type == ArithmeticType::kF32) return narrow;
  const auto storage =
      type == ArithmeticType::kBF16 ? reference::Storage::kBF16 : reference::Storage::kF16;
  return reference::round_to(storage, narrow);
}

bool is_stored_in(ArithmeticType type, const AlignedValue& value) {
  return value.dtype == dtype_of(type) || on_grid(value.data, type);
}

}  // namespace mainstem
