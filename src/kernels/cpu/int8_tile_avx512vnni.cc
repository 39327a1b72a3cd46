// clang-format off: the order of these is their meaning
#if defined(__x86_64__)
#define MAINSTEM_ISA avx512vnni
#define MAINSTEM_VNNI
#include "kernels/cpu/vec_avx512.h"
#include "kernels/cpu/int8_tile.inl"
#endif
