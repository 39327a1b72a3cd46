// Runs of PyTorch in float32, bfloat16 and float16 (tests/generators/make_arithmetic.py): each of
// their steps, made from the run's own inputs, is within what the imitated arithmetics may be off.

#include <gtest/gtest.h>

#include <filesystem>

#include "mainstem/model.h"
#include "mainstem/safetensors.h"
#include "support/envelope.h"

namespace mainstem::testing {
namespace {

namespace fs = std::filesystem;
const fs::path kFolder = fs::path(MAINSTEM_TEST_DATA) / "golden" / "arithmetic";

// An envelope is the largest of a handful of samples of the same rounding that the run is one more
// sample of. Where steps are sums of few terms over few rows, as here, it may be exceeded a little.
constexpr double kMoreThanSampled = 1.25;

struct Recorded {
  SequenceInput input;
  SiteData values;
  std::map<std::string, size_t> widths;

  Recorded(const std::string& family, const std::string& name) {
    const auto file = SafetensorsFile::open(kFolder / family / (name + ".safetensors"));
    for (const StoredTensor& tensor : file.tensors()) {
      const TensorView view = file.view(tensor.name);
      if (tensor.name == "tokens") {
        for (const double id : to_f64(view)) input.tokens.push_back(static_cast<int64_t>(id));
        continue;
      }
      values[tensor.name] = to_f64(view);
      widths[tensor.name] = static_cast<size_t>(view.shape().back());
    }
  }
};

struct Case {
  const char* name;
  ArithmeticType type;
};
constexpr Case kCases[] = {
    {"f32", ArithmeticType::kF32}, {"bf16", ArithmeticType::kBF16}, {"f16", ArithmeticType::kF16}};

Model load(const std::string& family) {
  return Model::load(kFolder / family, {.allow_unknown_keys = {}, .skip_tokenizer = true});
}

TEST(ArithmeticOfPyTorch, EveryStepIsWithinTheEnvelope) {
  for (const std::string family : {"llama", "gpt2"}) {
    const Model model = load(family);
    for (const Case& each : kCases) {
      for (const std::string attention : {"", ".sdpa"}) {
        const Recorded run(family, each.name + attention);
        const auto steps = step_ratios(model.bound(), run.input, run.values, run.widths, each.type);
        EXPECT_GE(steps.size(), attention.empty() ? 17u : 4u);
        for (const StepRatio& step : steps) {
          EXPECT_LE(step.ratio, kMoreThanSampled)
              << family << " " << each.name << attention << " " << step.site << ": " << step.local
              << " against " << step.envelope;
        }
      }
    }
  }
}

/// The first variant is transformers' own order of roundings: what has no long sum in it comes out
/// bit for bit.
TEST(ArithmeticOfPyTorch, EagerRoundingsBitForBit) {
  for (const Case& each : kCases) {
    if (each.type == ArithmeticType::kF32) continue;
    const Model model = load("llama");
    const Recorded run("llama", each.name);
    const SiteData made = replay(model.bound(), run.input, run.values, {each.type, 0});
    for (const std::string site :
         {"embed", "blocks.0.attn_norm", "blocks.0.resid_mid", "blocks.0.mlp_norm",
          "blocks.0.mlp_act", "blocks.0.mlp_hidden", "blocks.0.resid_post", "final_norm"}) {
      EXPECT_EQ(made.at(site), run.values.at(site)) << each.name << " " << site;
    }
    // The order of casts shows: the other one does not give these bits (norm.cast_order).
    const SiteData other = replay(model.bound(), run.input, run.values, {each.type, 2});
    EXPECT_NE(other.at("blocks.0.attn_norm"), run.values.at("blocks.0.attn_norm"));
  }
}

/// A value that no implementation computes is far outside, and so is what was made of another one.
TEST(ArithmeticOfPyTorch, AMistakeIsOutside) {
  const Model model = load("llama");
  for (const Case& each : kCases) {
    Recorded run("llama", each.name);
    for (double& v : run.values.at("blocks.0.mlp_hidden")) v *= 1.05;
    for (const StepRatio& step :
         step_ratios(model.bound(), run.input, run.values, run.widths, each.type)) {
      if (step.site == "blocks.0.mlp_hidden" || step.site == "blocks.0.mlp_proj") {
        EXPECT_GT(step.ratio, 10);
      } else {
        EXPECT_LE(step.ratio, kMoreThanSampled) << step.site;
      }
    }
  }
}

}  // namespace
}  // namespace mainstem::testing
