#include <array>

#include "base/checked.h"
#include "mainstem/error.h"
#include "mainstem/tensor.h"

namespace mainstem {
namespace {

constexpr DTypeInfo plain(std::string_view name, int bytes, bool is_float) {
  return {name, 1, bytes, is_float, false};
}

constexpr DTypeInfo blocks(std::string_view name, int elements, int bytes) {
  return {name, elements, bytes, false, true};
}

// In the order of the enumerators.
constexpr std::array kTypes = {
    plain("bool", 1, false),  plain("u8", 1, false),     plain("i8", 1, false),
    plain("u16", 2, false),   plain("i16", 2, false),    plain("u32", 4, false),
    plain("i32", 4, false),   plain("u64", 8, false),    plain("i64", 8, false),
    plain("f16", 2, true),    plain("bf16", 2, true),    plain("f32", 4, true),
    plain("f64", 8, true),    plain("f8_e4m3", 1, true), plain("f8_e5m2", 1, true),
    blocks("q4_0", 32, 18),   blocks("q4_1", 32, 20),    blocks("q5_0", 32, 22),
    blocks("q5_1", 32, 24),   blocks("q8_0", 32, 34),    blocks("q2_k", 256, 84),
    blocks("q3_k", 256, 110), blocks("q4_k", 256, 144),  blocks("q5_k", 256, 176),
    blocks("q6_k", 256, 210),
};
static_assert(kTypes.size() == static_cast<size_t>(DType::kQ6_K) + 1);

}  // namespace

const DTypeInfo& info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  if (index >= kTypes.size()) throw internal_error("dtype " + std::to_string(index) + " unknown");
  return kTypes[index];
}

std::string_view name(DType dtype) { return info(dtype).name; }

int64_t element_count(std::span<const int64_t> shape) {
  // A zero does not excuse the other dimensions: rows() multiplies some of them on their own.
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0)
      throw bad_input("dimension of " + to_string(shape), "0 or more", std::to_string(dim));
    if (dim == 0) {
      empty = true;
    } else {
      count = checked_mul(count, dim, "element count");
    }
  }
  return empty ? 0 : count;
}

int64_t byte_count(DType dtype, std::span<const int64_t> shape) {
  const DTypeInfo& type = info(dtype);
  const int64_t count = element_count(shape);
  const int64_t columns = shape.empty() ? 1 : shape.back();
  if (columns % type.block_elements != 0) {
    throw bad_input("last dimension of " + std::string(type.name) + " " + to_string(shape),
                    "a multiple of " + std::to_string(type.block_elements),
                    std::to_string(columns));
  }
  return checked_mul(count / type.block_elements, int64_t{type.block_bytes}, "byte count");
}

std::string to_string(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace mainstem
