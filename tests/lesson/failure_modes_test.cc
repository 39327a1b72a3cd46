// The lesson's table of failure modes, row by row: each is really made, and really caught.
// The two that speak of gradients are also in gradients_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "lesson/golden.h"
#include "mainstem/block.h"
#include "mainstem/check.h"
#include "mainstem/error.h"

namespace mainstem::lesson {
namespace {

using ::testing::HasSubstr;

class FailureModes : public ::testing::Test {
 protected:
  FailureModes() {
    spec_ = decoder_block_spec(kSmallBlock);
    Generator generator(3);
    state_ = init_decoder_block(kSmallBlock, generator);
    // Fresh norms are all ones, so that a norm that is left out could hide.
    for (const size_t norm : {size_t{0}, size_t{5}}) {
      std::vector<float> gain(32);
      generator.uniform(gain, 0.5, 1.5);
      state_[norm].value = Tensor::from_f32({32}, gain);
    }
    weights_ = decoder_block_weights(kSmallBlock, state_);
    program_ = build_block_program(spec_);
  }

  Program broken(const std::string& mistake) const {
    return make_mistake(program_, weights_, parse_mistake(mistake)).program;
  }

  /// The one check, on the right program and on a broken one.
  CheckResult result_of(const std::string& id, const Program& program) const {
    for (const CheckResult& result : check(program, weights_, {.threads = 1})) {
      if (result.id == id) return result;
    }
    return {id, CheckStatus::kNotApplicable, "no such check"};
  }
  void expect_caught(const std::string& mistake, const std::string& id,
                     const std::string& detail) const {
    EXPECT_EQ(result_of(id, program_).status, CheckStatus::kOk);
    const CheckResult result = result_of(id, broken(mistake));
    EXPECT_EQ(result.status, CheckStatus::kFailed) << result.detail;
    EXPECT_THAT(result.detail, HasSubstr(detail));
  }

  /// Output rows in double.
  std::vector<double> run(const Program& program, const std::vector<double>& x,
                          Compute compute = Compute::kF64) const {
    Session session(std::make_shared<BoundProgram>(program, weights_), {.compute = compute});
    const SequenceInput input{.sequence = session.add_sequence(), .input = x};
    return session.forward_all({&input, 1});
  }
  static std::vector<double> random_rows(int64_t rows) {
    Generator generator(4);
    return widened(draw_normal(generator, rows * 32));
  }

  BlockSpec spec_;
  StateDict state_;
  WeightSources weights_;
  Program program_;
};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// ------------------------------------------------------------------ residual shape mismatch

TEST_F(FailureModes, AFileWithAMatrixOfAnotherShapeIsNamed) {
  std::vector<NamedTensor> tensors;
  const Tensor transposed(DType::kF32, {64, 32});
  for (const StateEntry& entry : state_) tensors.push_back({entry.name, entry.value.view()});
  tensors.back().view = transposed.view();
  ASSERT_EQ(tensors.back().name, "mlp.w_out.weight");
  const auto path = std::filesystem::temp_directory_path() /
                    ("lesson_shape_" + std::to_string(::getpid()) + ".safetensors");
  write_safetensors(path, tensors);
  const std::string text =
      error_of([&] { decoder_block_weights(kSmallBlock, SafetensorsFile::open(path)); });
  std::filesystem::remove(path);
  EXPECT_EQ(text, "shape: expected [32, 64], got [64, 32]; in mlp.w_out.weight, " + path.string());
}

TEST_F(FailureModes, AWeightOfAnotherShapeDoesNotBind) {
  const Tensor narrow(DType::kF32, {31, 64});
  weights_["blocks.0.mlp_proj.weight"].tensor = narrow.view();
  EXPECT_THAT(error_of([&] { Block(spec_, weights_); }),
              HasSubstr("expected [32, 64], got [31, 64]; in blocks.0.mlp_proj.weight"));
}

// A sub-layer that gives 31 numbers per token, with the matrix to match: the sum is refused.
TEST_F(FailureModes, ASubLayerOfAnotherWidthCannotJoinTheStream) {
  Program wrong = program_;
  const WeightId weight = *wrong.find_weight("blocks.0.mlp_proj.weight");
  wrong.weights[static_cast<size_t>(weight)].shape = {31, 64};
  const ValueId out = *wrong.find_value({.site = Site::kMlpProj, .layer = 0});
  wrong.values[static_cast<size_t>(out)].width = 31;
  const Tensor narrow(DType::kF32, {31, 64});
  weights_["blocks.0.mlp_proj.weight"].tensor = narrow.view();
  const std::string text = error_of([&] { BoundProgram(wrong, weights_); });
  EXPECT_EQ(text,
            "width of blocks.0.mlp_proj: expected 32, got 31; in step add of blocks.0.resid_post");
  EXPECT_THROW(check(wrong, weights_, {.threads = 1}), Error);
}

// ------------------------------------------------------------------ norm applied to wrong tensor

TEST_F(FailureModes, ANormInTheWrongPlace) {
  expect_caught("norm.placement", "norms", "blocks.0.attn_norm differs from the spec's step");
  // It runs, keeps the shape and stays causal: nothing but the values tells.
  const auto x = random_rows(4);
  const auto right = run(program_, x), wrong = run(broken("norm.placement"), x);
  EXPECT_EQ(result_of("shape", broken("norm.placement")).status, CheckStatus::kOk);
  EXPECT_EQ(result_of("causal", broken("norm.placement")).status, CheckStatus::kOk);
  EXPECT_FALSE(testing::close(wrong, right, 0.1));
}

// The known-good implementation: the same weights in a post-norm spec.
TEST_F(FailureModes, TheWrongPlaceIsPostNorm) {
  BlockSpec post = spec_;
  post.placement = NormPlacement::kPost;
  WeightSources weights = weights_;
  for (const char* name : {"attn", "mlp"}) {
    const std::string prefix = "blocks.0." + std::string(name);
    weights[prefix + "_post_norm.weight"] = weights.at(prefix + "_norm.weight");
  }
  const auto x = random_rows(4);
  EXPECT_TRUE(
      testing::same_bits(run(broken("norm.placement"), x), Block(post, weights).forward(x, 1)));
}

// ------------------------------------------------------------------ missing residual

TEST_F(FailureModes, AMissingResidual) {
  expect_caught("residual.missing", "residual", "the stream leaves as it entered");
}

// ------------------------------------------------------------------ norm parameters not learned

TEST_F(FailureModes, ANormWhoseWeightsHaveNoEffect) {
  expect_caught("norm.missing", "norm_weights",
                "without effect: blocks.0.attn_norm.weight, blocks.0.mlp_norm.weight");
}

// The lesson's list(module.parameters()): the norms' weights are among the block's.
TEST_F(FailureModes, NormWeightsAreParameters) {
  const auto listed = [](const Program& program) {
    return program.find_weight("blocks.0.attn_norm.weight") &&
           program.find_weight("blocks.0.mlp_norm.weight");
  };
  EXPECT_TRUE(listed(program_));
  EXPECT_FALSE(listed(broken("norm.missing")));
}

// ------------------------------------------------------------------ gate and value

TEST_F(FailureModes, GateAndValueExchanged) {
  expect_caught("mlp.gate_value_swapped", "mlp", "blocks.0.mlp_act differs from the spec's step");
  EXPECT_EQ(result_of("shape", broken("mlp.gate_value_swapped")).status, CheckStatus::kOk);
}

// A file whose combined matrix has the value rows first makes the same mistake, and no check of
// the program can see it: only values of a known-good implementation can.
TEST_F(FailureModes, AFileWithTheHalvesExchangedIsTheSameMistake) {
  WeightSources exchanged = weights_;
  std::swap(exchanged.at("blocks.0.mlp_gate.weight"), exchanged.at("blocks.0.mlp_value.weight"));
  const auto x = random_rows(4);
  const auto wrong = Block(spec_, exchanged).forward(x, 1);
  EXPECT_TRUE(testing::close(wrong, run(broken("mlp.gate_value_swapped"), x), kFloat64));
  EXPECT_FALSE(testing::close(wrong, run(program_, x), 1e-2));
  for (const CheckResult& result : check(program_, exchanged, {.threads = 1})) {
    EXPECT_NE(result.status, CheckStatus::kFailed) << result.id;
  }
}

// ------------------------------------------------------------------ RMSNorm without eps

TEST_F(FailureModes, RmsNormWithoutEps) {
  expect_caught("norm.eps", "zero_input", "an all-zero stream becomes");
  const std::vector<double> zeros(4 * 32);
  const auto finite = [](double value) { return std::isfinite(value); };
  for (Compute compute : {Compute::kF32, Compute::kF32Reference, Compute::kF64}) {
    const auto right = run(program_, zeros, compute);
    EXPECT_TRUE(std::all_of(right.begin(), right.end(), finite));
    const auto wrong = run(broken("norm.eps"), zeros, compute);
    EXPECT_TRUE(std::none_of(wrong.begin(), wrong.end(), finite));
  }
}

// ------------------------------------------------------------------ not causally safe

TEST_F(FailureModes, NoCausalMask) {
  expect_caught("attn.causal_mask", "causal", "corrupting a position moves earlier outputs");
  const auto x = random_rows(4);
  auto corrupt = x;
  std::fill_n(corrupt.begin() + 2 * 32, 32, 999.0);
  const auto first_two = [](const std::vector<double>& rows) {
    return std::span(rows).first(2 * 32);
  };
  for (Compute compute : {Compute::kF32, Compute::kF32Reference, Compute::kF64}) {
    const auto a = run(program_, x, compute), b = run(program_, corrupt, compute);
    EXPECT_TRUE(testing::same_bits(first_two(b), first_two(a)));
    const Program wrong = broken("attn.causal_mask");
    const auto c = run(wrong, x, compute), d = run(wrong, corrupt, compute);
    EXPECT_FALSE(testing::close(first_two(d), first_two(c), 1e-2));
  }
}

}  // namespace
}  // namespace mainstem::lesson
