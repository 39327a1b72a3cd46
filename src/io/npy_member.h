#pragma once

#include "io/npy_format.h"
#include "io/zip_reader.h"

namespace mainstem {

/// The header of a `.npy` file in an archive, and whether its size fits the member's. A compressed
/// member is unpacked no further, unless it claims much more than its bytes suggest.
NpyHeader read_npy_header(const ZipMember& member);

/// The whole array.
Tensor read_npy_member(const ZipMember& member);

}  // namespace mainstem
