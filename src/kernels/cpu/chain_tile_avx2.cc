// clang-format off: the order of these is their meaning
#if defined(__x86_64__)
#include "kernels/cpu/vec_avx2.h"
#include "kernels/cpu/chain_tile.inl"
#endif
