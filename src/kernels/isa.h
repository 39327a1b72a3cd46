#pragma once

#include <span>
#include <string_view>

namespace mainstem::kernels {

/// Instruction sets that kernels are compiled for, each containing the ones before it.
enum class Isa {
  kPortable,    ///< plain C++, any processor
  kAvx2,        ///< AVX2 + FMA + F16C
  kAvx512,      ///< AVX-512 F, BW, VL, DQ
  kAvx512Vnni,  ///< + AVX-512 VNNI
};

std::string_view name(Isa isa);  ///< "portable", "avx2", "avx512", "avx512vnni"

/// Levels this processor and operating system can run (CPUID and XGETBV), lowest first, capped by
/// the environment variable MAINSTEM_ISA (a level's name; an unknown name is a usage Error).
std::span<const Isa> available_isas();
/// The highest of them.
Isa active_isa();

}  // namespace mainstem::kernels
