// Prints how far each step of a run of a model is from its definition, beside the envelope of an
// arithmetic:
//
//     arithmetic_tool MODEL RUN.safetensors f32|bf16|f16|q8act
//
// RUN holds `tokens` and values under their sites' names, as tests/generators/make_arithmetic.py
// writes them.

#include <cstdio>
#include <exception>
#include <string>

#include "../support/envelope.h"
#include "mainstem/model.h"
#include "mainstem/safetensors.h"

namespace {

using namespace mainstem;

int run(const std::string& model_path, const std::string& run_path, const std::string& type_name) {
  const ArithmeticType type = type_name == "f32"    ? ArithmeticType::kF32
                              : type_name == "bf16" ? ArithmeticType::kBF16
                              : type_name == "f16"  ? ArithmeticType::kF16
                                                    : ArithmeticType::kQ8Act;
  const Model model = Model::load(model_path, {.allow_unknown_keys = {}, .skip_tokenizer = true});
  const auto file = SafetensorsFile::open(run_path);
  SequenceInput input;
  testing::SiteData values;
  std::map<std::string, size_t> widths;
  for (const StoredTensor& tensor : file.tensors()) {
    const TensorView view = file.view(tensor.name);
    if (tensor.name == "tokens") {
      for (const double id : to_f64(view)) input.tokens.push_back(static_cast<int64_t>(id));
      continue;
    }
    values[tensor.name] = to_f64(view);
    widths[tensor.name] = static_cast<size_t>(view.shape().back());
  }
  std::printf("%-26s %10s %10s %7s %7s\n", "site", "local", "envelope", "ratio", "row");
  for (const auto& step :
       testing::step_ratios(model.bound(), input, values, widths, type, /*threads=*/2)) {
    std::printf("%-26s %10.3g %10.3g %7.3f %7.3f\n", step.site.c_str(), step.local, step.envelope,
                step.ratio, step.row_ratio);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    return run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
