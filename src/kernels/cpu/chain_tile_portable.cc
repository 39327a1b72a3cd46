// clang-format off: the order of these is their meaning
#include "kernels/cpu/vec_portable.h"
#include "kernels/cpu/chain_tile.inl"
