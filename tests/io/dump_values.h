#pragma once

// What tests/generators/make_dumps.py wrote, beside what it holds.

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/test_files.h"
#include "mainstem/dump.h"

namespace mainstem::test {

inline std::filesystem::path dump_path(const std::string& name) {
  return std::filesystem::path(MAINSTEM_TEST_DATA) / "golden" / "dumps" / name;
}

inline const nlohmann::json& expected_dumps() {
  static const nlohmann::json expected = read_json_file(dump_path("expected.json"));
  return expected;
}

inline std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF64:
      return "float64";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kI64:
      return "int64";
    case DType::kI32:
      return "int32";
    case DType::kU8:
      return "uint8";
    case DType::kU16:
      return "uint16";
    case DType::kBool:
      return "bool";
    case DType::kF8E4M3:
      return "float8_e4m3fn";
    default:
      return "another";
  }
}

/// Dtype, shape and every value, exactly.
inline void expect_tensor(const Dump& dump, const DumpTensor& tensor,
                          const nlohmann::json& expected) {
  SCOPED_TRACE(tensor.name);
  EXPECT_EQ(torch_name(tensor.dtype), expected["dtype"].get<std::string>());
  EXPECT_EQ(tensor.shape, expected["shape"].get<Shape>());
  const Tensor values = dump.read(tensor);
  EXPECT_EQ(values.dtype(), tensor.dtype);
  EXPECT_EQ(values.shape(), tensor.shape);
  EXPECT_EQ(to_f64(values.view()), expected["values"].get<std::vector<double>>());
}

/// The known elements lie within their errors of the values of the whole tensor.
inline void expect_printed(const PrintedValues& printed, const std::vector<double>& whole) {
  ASSERT_EQ(printed.indices.size(), printed.values.size());
  ASSERT_EQ(printed.indices.size(), printed.errors.size());
  for (size_t i = 0; i < printed.indices.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(printed.indices[i - 1], printed.indices[i]);
    }
    const double value = whole.at(static_cast<size_t>(printed.indices[i]));
    if (std::isfinite(value)) {
      // The decimal was rounded from the exact value; parsing it back rounds once more.
      EXPECT_LE(std::fabs(printed.values[i] - value),
                printed.errors[i] * (1 + 1e-6) + 1e-15 * std::fabs(value));
    } else if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(printed.values[i]));
    } else {
      EXPECT_EQ(printed.values[i], value);
    }
  }
}

}  // namespace mainstem::test
