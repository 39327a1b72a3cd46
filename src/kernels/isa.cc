#include "kernels/isa.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "mainstem/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace mainstem::kernels {
namespace {

constexpr std::array<Isa, 4> kLevels = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni};

#if defined(__x86_64__)

/// The register sets that the operating system saves (XCR0).
uint64_t enabled_state() {
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool has(uint32_t word, std::initializer_list<int> bits) {
  return std::all_of(bits.begin(), bits.end(), [&](int bit) { return (word >> bit & 1u) != 0; });
}

Isa highest_of_processor() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return Isa::kPortable;
  constexpr int kFma = 12, kOsxsave = 27, kAvx = 28, kF16c = 29;
  if (!has(c, {kFma, kOsxsave, kAvx, kF16c})) return Isa::kPortable;
  const uint64_t state = enabled_state();
  constexpr uint64_t kYmm = 0x6, kZmm = 0xE6;
  if ((state & kYmm) != kYmm) return Isa::kPortable;

  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return Isa::kPortable;
  constexpr int kAvx2Bit = 5;
  if (!has(b, {kAvx2Bit})) return Isa::kPortable;
  constexpr int kF = 16, kDq = 17, kBw = 30, kVl = 31;
  if ((state & kZmm) != kZmm || !has(b, {kF, kDq, kBw, kVl})) return Isa::kAvx2;
  constexpr int kVnni = 11;
  return has(c, {kVnni}) ? Isa::kAvx512Vnni : Isa::kAvx512;
}

#else

Isa highest_of_processor() { return Isa::kPortable; }

#endif

Isa highest_allowed() {
  const Isa highest = highest_of_processor();
  const char* cap = std::getenv("MAINSTEM_ISA");
  if (cap == nullptr || *cap == '\0') return highest;
  const auto level =
      std::find_if(kLevels.begin(), kLevels.end(), [&](Isa isa) { return name(isa) == cap; });
  if (level == kLevels.end()) {
    throw usage_error("MAINSTEM_ISA", "portable, avx2, avx512 or avx512vnni", cap);
  }
  return std::min(highest, *level);
}

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
  }
  return "";
}

std::span<const Isa> available_isas() {
  static const Isa highest = highest_allowed();
  return std::span(kLevels).first(static_cast<size_t>(highest) + 1);
}

Isa active_isa() { return available_isas().back(); }

}  // namespace mainstem::kernels
