// The lesson's three exercises.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "kernels/cpu_kernels.h"
#include "kernels/reference/reference.h"
#include "lesson/golden.h"
#include "mainstem/block.h"

namespace mainstem::lesson {
namespace {

// ------------------------------------------------------------------ 1: RMSNorm against PyTorch

constexpr int64_t kRows = 2 * 16, kWidth = 512;
const std::string kNormFile = "exercise1.safetensors";

/// nn.RMSNorm(512) without eps takes the machine epsilon of the type.
struct NormCase {
  double eps;
  std::string golden;
};
const std::vector<NormCase>& float32_cases() {
  static const std::vector<NormCase> cases = {
      {1e-6, "eps_1e-6_float32"}, {std::numeric_limits<float>::epsilon(), "eps_none_float32"}};
  return cases;
}
const std::vector<NormCase>& float64_cases() {
  static const std::vector<NormCase> cases = {
      {1e-6, "eps_1e-6_float64"}, {std::numeric_limits<double>::epsilon(), "eps_none_float64"}};
  return cases;
}

/// The values whose positions the golden file lists.
std::vector<double> picked(const std::vector<double>& all) {
  std::vector<double> values;
  const nlohmann::json index = golden_json("exercises.json").at("exercise1").at("index");
  for (const nlohmann::json& at : index) {
    const auto row = at[0].get<size_t>() * 16 + at[1].get<size_t>();
    values.push_back(all.at(row * kWidth + at[2].get<size_t>()));
  }
  return values;
}

std::vector<double> norm_golden(const std::string& name) {
  return numbers(golden_json("exercises.json").at("exercise1").at("outputs").at(name));
}

template <typename T>
std::vector<double> by_plain_loops(double eps) {
  const auto x64 = golden_values(kNormFile, "x"), w64 = golden_values(kNormFile, "weight");
  const std::vector<T> x(x64.begin(), x64.end()), w(w64.begin(), w64.end());
  std::vector<T> y(x.size());
  reference::norm<T>(x.data(), kRows, kWidth, {.eps = eps, .group = kWidth}, w.data(), nullptr,
                     y.data(), Worker::alone());
  return widened(y);
}

/// The first norm of a block over x [2,16,512], as a program runs it.
std::vector<double> by_a_block(double eps, Compute compute) {
  BlockSpec spec;
  spec.width = kWidth;
  spec.norm.eps = eps;
  spec.attention.heads = spec.attention.kv_heads = 1;
  spec.attention.head_width = 2;
  spec.attention.score_scale = 1;
  spec.mlp.hidden = 2;
  std::vector<Tensor> zeros;
  WeightSources weights;
  for (const WeightInfo& info : Block::weight_names(spec)) {
    zeros.emplace_back(DType::kF32, info.shape);
    weights[info.name].tensor = zeros.back().view();
  }
  weights["blocks.0.attn_norm.weight"].tensor = golden_file(kNormFile).view("weight");
  const Block block(spec, weights);
  const auto traced = block.trace(golden_values(kNormFile, "x"), 2,
                                  {{.site = Site::kAttnNorm, .layer = 0}}, compute);
  EXPECT_EQ(traced.at(0).value.shape(), (Shape{2, 16, kWidth}));
  return to_f64(traced.at(0).value.view());
}

TEST(Exercise1, RmsNormInFloat32) {
  for (const auto& [eps, name] : float32_cases()) {
    SCOPED_TRACE(name);
    const auto want = norm_golden(name);
    EXPECT_TRUE(testing::close(picked(by_plain_loops<float>(eps)), want, kFloat32));
    EXPECT_TRUE(testing::close(picked(by_a_block(eps, Compute::kF32)), want, kFloat32));
  }
}

TEST(Exercise1, RmsNormInFloat64) {
  for (const auto& [eps, name] : float64_cases()) {
    SCOPED_TRACE(name);
    const auto want = norm_golden(name);
    EXPECT_TRUE(testing::close(picked(by_plain_loops<double>(eps)), want, kFloat64));
    EXPECT_TRUE(testing::close(picked(by_a_block(eps, Compute::kF64)), want, kFloat64));
  }
}

TEST(Exercise1, RmsNormOfEveryInstructionSet) {
  const auto x = to_f32(golden_file(kNormFile).view("x"));
  const auto weight = to_f32(golden_file(kNormFile).view("weight"));
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (const auto& [eps, name] : float32_cases()) {
      SCOPED_TRACE(name);
      const kernels::NormPrologue norm{.eps = static_cast<float>(eps), .weight = weight.data()};
      std::vector<float> y(x.size());
      kernels::cpu_kernels(isa).norm(
          {.x = x.data(), .stride = kWidth, .rows = kRows, .columns = kWidth, .norm = &norm},
          y.data(), kWidth, Worker::alone());
      EXPECT_TRUE(testing::close(picked(widened(y)), norm_golden(name), kFloat32));
    }
  }
}

// The two values of eps differ by 4e-7 of a value: only double can tell them apart.
TEST(Exercise1, TheDefaultEpsIsNotTheLessons) {
  const auto lesson = norm_golden("eps_1e-6_float64"), torch = norm_golden("eps_none_float64");
  EXPECT_FALSE(testing::close(picked(by_plain_loops<double>(1e-6)), torch, kFloat64));
  EXPECT_FALSE(testing::close(lesson, torch, 1e-7));
  EXPECT_TRUE(testing::close(lesson, torch, 1e-6));
}

// ------------------------------------------------------------------ 2: parameters

constexpr int64_t kD = 512;

int64_t parameters(const std::vector<WeightInfo>& weights, const std::string& part) {
  int64_t total = 0;
  for (const WeightInfo& info : weights) {
    if (info.name.find(part) != std::string::npos) total += element_count(info.shape);
  }
  return total;
}

TEST(Exercise2, ShapesOfTheGatedMlp) {
  const nlohmann::json golden = golden_json("exercises.json").at("exercise2");
  std::map<std::string, Shape> shapes;
  const auto state = decoder_block_state({.width = kD, .heads = 8});
  for (const WeightInfo& info : state) shapes[info.name] = info.shape;
  EXPECT_EQ(shapes.at("mlp.w.weight"),
            golden.at("combined_projection_stored_by_nn_Linear").get<Shape>());
  EXPECT_EQ(shapes.at("mlp.w_out.weight"),
            golden.at("output_projection_stored_by_nn_Linear").get<Shape>());
  EXPECT_EQ(parameters(state, "mlp.w."),
            golden.at("combined_projection_parameters").get<int64_t>());
  EXPECT_EQ(parameters(state, "mlp.w_out."),
            golden.at("output_projection_parameters").get<int64_t>());
  EXPECT_EQ(parameters(state, "mlp."), golden.at("total").get<int64_t>());
  EXPECT_EQ(parameters(state, "mlp."), 6 * kD * kD);
}

TEST(Exercise2, EqualExpansionsUnequalTotals) {
  const nlohmann::json golden = golden_json("exercises.json").at("exercise2");
  BlockSpec gated = decoder_block_spec({.width = kD, .heads = 8});
  BlockSpec plain = decoder_block_spec({.width = kD, .heads = 8, .mlp = DecoderBlockMlp::kGelu});
  const auto with_biases = Block::weight_names(plain);
  EXPECT_EQ(parameters(with_biases, "mlp_") - kD,
            golden.at("gelu_mlp_total_with_bias").get<int64_t>());
  plain.mlp.up_bias = plain.mlp.down_bias = false;
  const auto of_gated = Block::weight_names(gated), of_plain = Block::weight_names(plain);
  const auto expansion_of_gated =
      parameters(of_gated, "mlp_gate") + parameters(of_gated, "mlp_value");
  EXPECT_EQ(expansion_of_gated, 4 * kD * kD);
  EXPECT_EQ(parameters(of_plain, "mlp_pre"), 4 * kD * kD);
  EXPECT_EQ(expansion_of_gated + parameters(of_gated, "mlp_proj"), 6 * kD * kD);
  EXPECT_EQ(parameters(of_plain, "mlp_pre") + parameters(of_plain, "mlp_proj"), 8 * kD * kD);
  EXPECT_EQ(8 * kD * kD, golden.at("gelu_mlp_total_without_bias").get<int64_t>());
}

TEST(Exercise2, ALayerNormHasTwiceTheParametersOfAnRmsNorm) {
  for (const auto& [kind, each] : {std::pair{NormKind::kRms, kD}, {NormKind::kLayer, 2 * kD}}) {
    const auto weights =
        Block::weight_names(decoder_block_spec({.width = kD, .heads = 8, .norm = kind}));
    EXPECT_EQ(parameters(weights, "attn_norm"), each);
    EXPECT_EQ(parameters(weights, "mlp_norm"), each);
  }
}

// ------------------------------------------------------------------ 3: LayerNorm and GELU

struct Exercise3Form {
  DecoderBlockOptions options;
  std::string prefix, summary;
};
const std::vector<Exercise3Form>& forms() {
  static const std::vector<Exercise3Form> both = {{kExercise3, "", "erf"},
                                                  {kExercise3Tanh, "tanh.", "tanh"}};
  return both;
}
const std::string kFile3 = "exercise3.safetensors";

TEST(Exercise3, OutputIsTorchs) {
  const auto x = to_f32(golden_file(kFile3).view("X"));
  const nlohmann::json summary = golden_json("exercises.json").at("exercise3");
  for (const auto& [options, prefix, name] : forms()) {
    SCOPED_TRACE(name);
    const Block block(decoder_block_spec(options),
                      decoder_block_weights(options, golden_file(kFile3), "param."));
    const auto exact = golden_values(kFile3, prefix + "out_f64");
    const auto out64 = block.forward(widened(x), 1);
    EXPECT_TRUE(testing::close(out64, exact, kFloat64));
    EXPECT_NEAR(mean_square(out64), summary.at(name + "_loss_float64").get<double>(), kFloat64);
    const auto out = widened(block.forward(x, 1));
    EXPECT_TRUE(testing::close(out, exact, kFloat32));
    EXPECT_TRUE(testing::close(out, golden_values(kFile3, prefix + "out"), kFloat32));
  }
}

TEST(Exercise3, TheTwoFormsOfGeluAreTwoActivations) {
  const auto erf = golden_values(kFile3, "out_f64"), tanh = golden_values(kFile3, "tanh.out_f64");
  EXPECT_FALSE(testing::close(erf, tanh, kFloat32));
  EXPECT_TRUE(testing::close(erf, tanh, [](size_t) { return 1.02e-4; }));
}

TEST(Exercise3, IsInitialisedAsTorchDoes) {
  Generator generator(42);
  int64_t total = 0;
  for (const StateEntry& entry : init_decoder_block(kExercise3, generator)) {
    const auto want = golden_file(kFile3).view("param." + entry.name);
    EXPECT_TRUE(testing::same_bits(to_f32(entry.value.view()), to_f32(want))) << entry.name;
    total += entry.value.count();
  }
  EXPECT_EQ(total, golden_json("exercises.json").at("exercise3").at("parameters").get<int64_t>());
  EXPECT_TRUE(testing::same_bits(draw_normal(generator, 1 * 4 * 32),
                                 to_f32(golden_file(kFile3).view("X"))));
}

/// "site: formula" of every step.
std::set<std::string> steps_of(const DecoderBlockOptions& options) {
  const Program program = build_block_program(decoder_block_spec(options));
  std::set<std::string> steps;
  for (const NamedValue& named : program.sites) {
    steps.insert(to_string(named.site) + ": " + program.formula(named.value));
  }
  return steps;
}

TEST(Exercise3, TheResidualStructureStays) {
  const auto before = steps_of(kSmallBlock), after = steps_of(kExercise3);
  std::set<std::string> changed;
  for (const auto& [one, other] : {std::pair{&before, &after}, {&after, &before}}) {
    for (const std::string& step : *one) {
      if (!other->contains(step)) changed.insert(step.substr(0, step.find(':')));
    }
  }
  EXPECT_EQ(changed, (std::set<std::string>{
                         "blocks.0.attn_norm", "blocks.0.mlp_norm", "blocks.0.mlp_gate",
                         "blocks.0.mlp_value", "blocks.0.mlp_pre", "blocks.0.mlp_act",
                         "blocks.0.mlp_hidden", "blocks.0.mlp_proj", "blocks.0.mlp_out"}));
  EXPECT_TRUE(before.contains("blocks.0.resid_mid: resid_pre + attn_out"));
  EXPECT_TRUE(before.contains("blocks.0.resid_post: resid_mid + mlp_out"));
}

// ------------------------------------------------------------------ two matrices or one

/// The lesson's text has W_G and W_U with biases, its code one matrix without.
TEST(SwiGlu, TwoMatricesWithBiasesAreOneCombinedMatrix) {
  constexpr int64_t d = 32, hidden = 2 * d;
  BlockSpec spec = decoder_block_spec(kSmallBlock);
  spec.mlp.up_bias = spec.mlp.down_bias = true;
  WeightSources weights =
      decoder_block_weights(kSmallBlock, golden_file("decoder_block.safetensors"), "param.");
  Generator generator(7);
  const Tensor up_bias = Tensor::from_f32({2 * hidden}, draw_normal(generator, 2 * hidden));
  const Tensor down_bias = Tensor::from_f32({d}, draw_normal(generator, d));
  const auto bias_half = [&](int64_t begin) {
    return TensorView(DType::kF32, {hidden}, up_bias.as<float>().data() + begin);
  };
  weights["blocks.0.mlp_gate.bias"].tensor = bias_half(0);
  weights["blocks.0.mlp_value.bias"].tensor = bias_half(hidden);
  weights["blocks.0.mlp_proj.bias"].tensor = down_bias.view();

  // W_G and W_U with memory of their own.
  BlockSpec two = spec;
  two.mlp.combined = false;
  WeightSources separate = weights;
  std::vector<Tensor> own;
  for (const char* name :
       {"mlp_gate.weight", "mlp_value.weight", "mlp_gate.bias", "mlp_value.bias"}) {
    TensorView& view = separate["blocks.0." + std::string(name)].tensor;
    own.push_back(Tensor::from_f32(view.shape(), to_f32(view)));
    view = own.back().view();
  }

  const Block combined(spec, weights), split(two, separate);
  const auto x = to_f32(golden_file("decoder_block.safetensors").view("X"));
  EXPECT_TRUE(testing::same_bits(split.forward(x, 1), combined.forward(x, 1)));
  EXPECT_TRUE(testing::same_bits(split.forward(widened(x), 1), combined.forward(widened(x), 1)));

  // And both are (silu(x W_G + b_G) * (x W_U + b_U)) W_out + b_out.
  const auto traced = split.trace(
      widened(x), 1, {{.site = Site::kMlpNorm, .layer = 0}, {.site = Site::kMlpProj, .layer = 0}},
      Compute::kF64);
  const auto normed = to_f64(traced.at(0).value.view());
  const auto gate = to_f64(own[0].view()), value = to_f64(own[1].view());
  const auto gate_bias = to_f64(own[2].view()), value_bias = to_f64(own[3].view());
  const auto down = golden_values("decoder_block.safetensors", "param.mlp.w_out.weight");
  std::vector<double> want;
  for (int64_t t = 0; t < 4; ++t) {
    const auto row = std::span(normed).subspan(static_cast<size_t>(t * d), d);
    const auto product = [&](const std::vector<double>& w, int64_t n, std::span<const double> in) {
      double sum = 0;
      for (size_t i = 0; i < in.size(); ++i)
        sum += w[static_cast<size_t>(n) * in.size() + i] * in[i];
      return sum;
    };
    std::vector<double> h;
    for (int64_t n = 0; n < hidden; ++n) {
      const double g = product(gate, n, row) + gate_bias[static_cast<size_t>(n)];
      const double u = product(value, n, row) + value_bias[static_cast<size_t>(n)];
      h.push_back(g / (1 + std::exp(-g)) * u);
    }
    for (int64_t n = 0; n < d; ++n) {
      want.push_back(product(down, n, h) + to_f64(down_bias.view())[static_cast<size_t>(n)]);
    }
  }
  EXPECT_TRUE(testing::close(to_f64(traced.at(1).value.view()), want, kFloat64));
}

}  // namespace
}  // namespace mainstem::lesson
