#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "mainstem/decoder_block.h"
#include "mainstem/safetensors.h"
#include "support/compare.h"

// Values that PyTorch computed for the lesson (tests/generators/make_lesson.py), and how close a
// value must come to them.

namespace mainstem::lesson {

/// Largest difference, as a part of the tensor's largest value. PyTorch's own float32 is within
/// 4e-7 of its float64; a float64 sum of a few hundred terms rounds at about 1e-15.
inline constexpr double kFloat32 = 2e-6;
inline constexpr double kFloat64 = 1e-12;

inline std::string golden_path(const std::string& name) {
  return std::string(MAINSTEM_TEST_DATA) + "/golden/lesson/" + name;
}

inline nlohmann::json golden_json(const std::string& name) {
  std::ifstream file(golden_path(name));
  return nlohmann::json::parse(file);
}

/// "decoder_block.safetensors", opened once.
inline const SafetensorsFile& golden_file(const std::string& name) {
  static std::map<std::string, SafetensorsFile> files;
  const auto found = files.find(name);
  if (found != files.end()) return found->second;
  return files.emplace(name, SafetensorsFile::open(golden_path(name))).first->second;
}

inline std::vector<double> golden_values(const std::string& file, const std::string& tensor) {
  return to_f64(golden_file(file).view(tensor));
}

template <typename T>
std::vector<double> widened(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

inline std::vector<double> numbers(const nlohmann::json& values) {
  return values.get<std::vector<double>>();
}

inline std::vector<float> draw_normal(Generator& generator, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  generator.randn(values);
  return values;
}

/// The lesson's block at D = 32, H = 4, and exercise 3's.
inline constexpr DecoderBlockOptions kSmallBlock{.width = 32, .heads = 4};
inline constexpr DecoderBlockOptions kExercise3{
    .width = 32, .heads = 4, .norm = NormKind::kLayer, .mlp = DecoderBlockMlp::kGelu};
inline constexpr DecoderBlockOptions kExercise3Tanh{
    .width = 32, .heads = 4, .norm = NormKind::kLayer, .mlp = DecoderBlockMlp::kGeluTanh};

/// The lesson's loss, (out ** 2).mean().
inline double mean_square(std::span<const double> values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return sum / static_cast<double>(values.size());
}

}  // namespace mainstem::lesson
