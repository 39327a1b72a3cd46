#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mainstem/tensor.h"

namespace mainstem {

/// A tensor to be written, with the name it gets in the file.
struct NamedTensor {
  std::string name;
  TensorView view;
};

/// One tensor of a safetensors or GGUF file. The bytes stay in the mapped file: `data`,
/// `dtype_name` and `file` are valid as long as the reader that listed the tensor (or a copy of
/// its `storage()`) lives. Offsets and sizes were checked when the file was opened.
///
///     if (const StoredTensor* weight = file.find("lm_head.weight")) use(weight->view());
struct StoredTensor {
  std::string name;
  std::string_view dtype_name;  ///< as the file spells it: "BF16", "Q4_K"
  std::string_view file;        ///< the path, for messages
  std::optional<DType> dtype;   ///< empty: listed, but of a type that cannot be read
  Shape shape;                  ///< row-major, outermost first, whatever the file's own order
  const std::byte* data = nullptr;
  uint64_t bytes = 0;

  bool readable() const { return dtype.has_value(); }
  /// The values, not copied; an Error that names tensor, type and file where the type cannot be
  /// read. `data` need not be aligned to the element size, so read values through read_row.
  TensorView view() const;
};

/// Which numbers count as finite.
enum class NumberRange : uint8_t {
  kOwn,      ///< what the tensor's own type holds
  kFloat32,  ///< what float32 holds too: an f64 element beyond 3.4e38 does not
};

/// Index of the first element that is NaN or infinite. Of quantised types only the block scales
/// are looked at (the first element of the block is reported); other integers have none. File
/// formats allow such values, so readers do not look for them.
std::optional<int64_t> first_non_finite(const TensorView& tensor,
                                        NumberRange range = NumberRange::kOwn);

}  // namespace mainstem
