// The worked example as the command prints it, against PyTorch's values.

#include <map>

#include "cli/run_command.h"
#include "mainstem/safetensors.h"
#include "support/compare.h"

namespace mainstem::cli_test {
namespace {

struct Variant {
  std::string suffix;  // of the golden names
  std::vector<std::string> options;
};

std::vector<Variant> variants() {
  return {{"", {}},
          {"_causal", {"--causal"}},
          {"_postnorm", {"--placement", "post"}},
          {"_postnorm_causal", {"--placement", "post", "--causal"}},
          {"_layernorm", {"--norm", "layer"}},
          {"_layernorm_causal", {"--norm", "layer", "--causal"}},
          {"_gelu_erf", {"--mlp", "gelu-erf"}},
          {"_gelu_tanh", {"--mlp", "gelu"}},
          {"_gelu_tanh_causal", {"--mlp", "gelu", "--causal"}}};
}

std::vector<double> numbers(const nlohmann::json& values) {
  return values.get<std::vector<double>>();
}

/// Every golden tensor of this variant, by the step's name.
std::map<std::string, std::string> golden_names(const SafetensorsFile& golden,
                                                const std::string& suffix, bool f64) {
  const std::string end = suffix + (f64 ? "_f64" : "");
  std::map<std::string, std::string> names;
  for (const char* name : {"X_norm", "Q", "K", "V", "scores", "attn_weights", "attn_out", "X1",
                           "X1_norm", "x_proj", "x_gate", "x_val", "x_swish", "mlp_out", "X2"}) {
    if (golden.find(name + end) != nullptr) names[name] = name + end;
  }
  if (f64) return names;
  for (const char* name :
       {"X", "W_Q", "W_K", "W_V", "W_swiglu", "W_mlp_out", "W1_gelu", "W2_gelu"}) {
    names[name] = name;
  }
  return names;
}

TEST(Example, EveryVariantIsPyTorchs) {
  const auto golden = SafetensorsFile::open(test_file("golden/lesson/worked_example.safetensors"));
  for (const Variant& variant : variants()) {
    for (const bool f64 : {false, true}) {
      std::vector<std::string> arguments{"example"};
      arguments.insert(arguments.end(), variant.options.begin(), variant.options.end());
      if (f64) arguments.insert(arguments.end(), {"--compute", "f64"});
      const nlohmann::json document = run_json(arguments);
      EXPECT_EQ(document.at("seed"), 42);
      const auto names = golden_names(golden, variant.suffix, f64);
      size_t compared = 0;
      for (const nlohmann::json& step : document.at("steps")) {
        const auto found = names.find(step.at("name"));
        if (found == names.end()) continue;
        SCOPED_TRACE(found->second);
        const TensorView want = golden.view(found->second);
        EXPECT_EQ(step.at("shape").get<std::vector<int64_t>>(), want.shape());
        EXPECT_TRUE(testing::close(numbers(step.at("values")), to_f64(want), f64 ? 1e-12 : 2e-6));
        ++compared;
      }
      // X, five or six weights and the steps that the variant's golden has: no fewer than these.
      EXPECT_GE(compared, f64 ? 5U : 11U) << variant.suffix;
    }
  }
}

TEST(Example, DrawnTensorsComeFirstAndBitForBit) {
  const auto golden = SafetensorsFile::open(test_file("golden/lesson/worked_example.safetensors"));
  const nlohmann::json steps = run_json({"example"}).at("steps");
  const std::vector<std::string> order = {"X", "W_Q", "W_K", "W_V", "W_swiglu", "W_mlp_out"};
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(steps[i].at("name"), order[i]);
    EXPECT_EQ(steps[i].contains("weight"), i > 0);
    const std::vector<double> got = numbers(steps[i].at("values"));
    const auto want = golden.view(order[i]);
    ASSERT_EQ(got.size(), static_cast<size_t>(want.count()));
    for (size_t j = 0; j < got.size(); ++j) {
      EXPECT_EQ(static_cast<float>(got[j]), want.as<float>()[j]) << order[i] << " " << j;
    }
  }
  EXPECT_EQ(steps[6].at("site"), "blocks.0.attn_norm");
}

TEST(Example, ABreakChangesItsStepFirst) {
  const nlohmann::json right = run_json({"example"}).at("steps");
  const nlohmann::json wrong =
      run_json({"example", "--break", "mlp.gate_value_swapped"}).at("steps");
  ASSERT_EQ(right.size(), wrong.size());
  std::string first;
  for (size_t i = 0; i < right.size() && first.empty(); ++i) {
    if (right[i].at("values") != wrong[i].at("values")) first = right[i].at("name");
  }
  EXPECT_EQ(first, "x_act");
}

TEST(Example, AMistakeThatChangesNothingIsRefused) {
  EXPECT_TRUE(fails(run({"example", "--break", "norm.weight_swapped"}), 2, "weights"));
  EXPECT_TRUE(fails(run({"example", "--break", "attn.padding_mask"}), 2, "attn.padding_mask"));
  EXPECT_TRUE(fails(run({"example", "--break", "rope.pairing"}), 2, "rope.pairing"));
  EXPECT_EQ(run({"example", "--causal", "--break", "attn.causal_mask"}).code, 0);
  EXPECT_EQ(run({"example", "--break", "attn.causal_mask"}).code, 0);  // hides what must be seen
}

TEST(Example, WhatIsBrokenOnPurposeIsMarked) {
  const std::string how = run_json({"example", "--break", "norm.placement"}).at("broken_how");
  EXPECT_FALSE(how.empty());
  const std::string mark = "made wrong on purpose: norm.placement, " + how + "\n";
  for (const char* form : {"--causal", "--markdown"}) {
    const std::string text = run({"example", form, "--break", "norm.placement"}).out;
    EXPECT_NE(text.find(mark), std::string::npos) << form;
    EXPECT_EQ(text.find("pre-norm"), std::string::npos) << form;
    EXPECT_NE(run({"example", form}).out.find("pre-norm"), std::string::npos) << form;
  }
  EXPECT_EQ(run_json({"example", "--break", "norm.placement"}).at("broken"), "norm.placement");
  EXPECT_FALSE(run_json({"example"}).contains("broken"));
}

TEST(Example, TheOrderOfDrawsIsSaid) {
  for (const char* form : {"--causal", "--markdown"}) {
    const std::string text = run({"example", form, "--mlp", "gelu"}).out;
    const size_t unused = text.find("W_mlp_out [16,8]");
    EXPECT_NE(unused, std::string::npos) << form;
    EXPECT_LT(unused, text.find("W1_gelu [8,32]")) << form;
  }
  EXPECT_EQ(run_json({"example", "--mlp", "gelu-erf"}).at("drawn"),
            (std::vector<std::string>{"X", "W_Q", "W_K", "W_V", "W_swiglu", "W_mlp_out", "W1_gelu",
                                      "W2_gelu"}));
}

TEST(Example, TextAndMarkdownNameEveryStep) {
  const Outcome text = run({"example", "--causal"});
  const Outcome markdown = run({"example", "--markdown"});
  for (const char* name : {"X_norm", "attn_weights", "x_swish", "X2"}) {
    EXPECT_NE(text.out.find(std::string("\n") + name + " ["), std::string::npos) << name;
    EXPECT_NE(markdown.out.find(std::string("\n| ") + name + " |"), std::string::npos) << name;
  }
  EXPECT_NE(text.out.find("X_norm @ W_Q"), std::string::npos);
  EXPECT_EQ(text.out.find("not causal"), std::string::npos);
  EXPECT_TRUE(text.err.empty());
}

TEST(Example, OtherSeedsDrawOtherNumbers) {
  const nlohmann::json one = run_json({"example", "--seed", "1"});
  EXPECT_EQ(one.at("seed"), 1);
  EXPECT_NE(one.at("steps"), run_json({"example"}).at("steps"));
}

}  // namespace
}  // namespace mainstem::cli_test
