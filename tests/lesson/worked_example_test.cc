// The lesson's worked example, every named tensor in every variant, against PyTorch.

#include <gtest/gtest.h>

#include <algorithm>

#include "lesson/golden.h"
#include "mainstem/example.h"

namespace mainstem::lesson {
namespace {

const std::string kFile = "worked_example.safetensors";

struct Variant {
  std::string suffix;  // of the golden names
  ExampleOptions options;
};

std::vector<Variant> variants() {
  return {{"", {}},
          {"_causal", {.causal = true}},
          {"_postnorm", {.placement = NormPlacement::kPost}},
          {"_postnorm_causal", {.placement = NormPlacement::kPost, .causal = true}},
          {"_layernorm", {.norm = NormKind::kLayer}},
          {"_layernorm_causal", {.norm = NormKind::kLayer, .causal = true}},
          {"_gelu_erf", {.mlp = ExampleMlp::kGeluErf}},
          {"_gelu_tanh", {.mlp = ExampleMlp::kGeluTanh}},
          {"_gelu_tanh_causal", {.mlp = ExampleMlp::kGeluTanh, .causal = true}}};
}

const ExampleStep& step_named(const std::vector<ExampleStep>& steps, const std::string& name) {
  const auto found =
      std::find_if(steps.begin(), steps.end(), [&](const auto& step) { return step.name == name; });
  if (found == steps.end()) throw std::runtime_error("no step " + name);
  return *found;
}

std::vector<std::string> computed_names(const Variant& variant) {
  if (variant.suffix.empty()) {
    return {"X_norm",  "Q",      "K",      "V",     "scores",  "attn_weights", "attn_out", "X1",
            "X1_norm", "x_proj", "x_gate", "x_val", "x_swish", "mlp_out",      "X2"};
  }
  return {"attn_weights", "attn_out", "X1", "mlp_out", "X2"};
}

void expect_golden(Compute compute, const std::string& type, double tolerance) {
  for (const Variant& variant : variants()) {
    const auto steps = run_example(make_example(variant.options), compute);
    for (const std::string& name : computed_names(variant)) {
      SCOPED_TRACE(name + variant.suffix);
      const TensorView& got = step_named(steps, name).value.view();
      // Both float types are compared with the values of float64, the exact ones.
      const TensorView want = golden_file(kFile).view(name + variant.suffix + "_f64");
      EXPECT_TRUE(testing::same_shape(got.shape(), want.shape()));
      EXPECT_TRUE(testing::close(to_f64(got), to_f64(want), tolerance));
      if (type != "f32") continue;
      const TensorView own = golden_file(kFile).view(name + variant.suffix);
      EXPECT_TRUE(testing::close(to_f64(got), to_f64(own), tolerance));
    }
  }
}

TEST(WorkedExample, InFloat32) { expect_golden(Compute::kF32, "f32", kFloat32); }
TEST(WorkedExample, InFloat32ByThePlainLoops) {
  expect_golden(Compute::kF32Reference, "f32", kFloat32);
}
TEST(WorkedExample, InFloat64) { expect_golden(Compute::kF64, "f64", kFloat64); }

TEST(WorkedExample, InputAndWeightsAreDrawnAsTorchDrawsThem) {
  const auto gated = run_example(make_example());
  for (const char* name : {"X", "W_Q", "W_K", "W_V", "W_swiglu", "W_mlp_out"}) {
    const ExampleStep& step = step_named(gated, name);
    const TensorView want = golden_file(kFile).view(name);
    EXPECT_EQ(step.value.shape(), want.shape()) << name;
    EXPECT_TRUE(testing::same_bits(to_f32(step.value.view()), to_f32(want))) << name;
  }
  const auto plain = run_example(make_example({.mlp = ExampleMlp::kGeluErf}));
  for (const char* name : {"W1_gelu", "W2_gelu"}) {
    const TensorView want = golden_file(kFile).view(name);
    EXPECT_TRUE(testing::same_bits(to_f32(step_named(plain, name).value.view()), to_f32(want)));
  }
}

TEST(WorkedExample, HasTheLessonsShapes) {
  const std::map<std::string, Shape> shapes = {{"X", {1, 4, 8}},       {"X_norm", {1, 4, 8}},
                                               {"scores", {1, 4, 4}},  {"attn_out", {1, 4, 8}},
                                               {"X1", {1, 4, 8}},      {"X1_norm", {1, 4, 8}},
                                               {"x_proj", {1, 4, 32}}, {"x_swish", {1, 4, 16}},
                                               {"mlp_out", {1, 4, 8}}, {"X2", {1, 4, 8}}};
  const auto steps = run_example(make_example());
  for (const auto& [name, shape] : shapes) EXPECT_EQ(step_named(steps, name).value.shape(), shape);
}

TEST(WorkedExample, OnlyTheCausalOneHidesLaterTokens) {
  for (const bool causal : {false, true}) {
    const auto steps = run_example(make_example({.causal = causal}), Compute::kF64);
    const auto weights = step_named(steps, "attn_weights").value.as<double>();
    double above = 0;
    for (size_t t = 0; t < 4; ++t) {
      for (size_t s = t + 1; s < 4; ++s) above = std::max(above, weights[t * 4 + s]);
    }
    EXPECT_EQ(above > 0, !causal);
  }
}

// The formula in the lesson's text, SiLU on the other branch, is another block.
TEST(WorkedExample, TheActivationIsOnTheFirstHalf) {
  const auto steps = run_example(make_example(), Compute::kF64);
  const auto gate = step_named(steps, "x_gate").value.as<double>();
  const auto value = step_named(steps, "x_val").value.as<double>();
  std::vector<double> code, text;
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  for (size_t i = 0; i < gate.size(); ++i) {
    code.push_back(silu(gate[i]) * value[i]);
    text.push_back(gate[i] * silu(value[i]));
  }
  const auto want = golden_values(kFile, "x_swish_f64");
  EXPECT_TRUE(testing::close(code, want, kFloat64));
  EXPECT_FALSE(testing::close(text, want, 0.1));
}

}  // namespace
}  // namespace mainstem::lesson
