// Gradients by central differences in double, against the ones that PyTorch's autograd computed:
// the stream reaches the input, and every norm weight reaches the loss.

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "lesson/golden.h"
#include "mainstem/block.h"
#include "mainstem/check.h"

namespace mainstem::lesson {
namespace {

/// Step of the differences. The fourth-order formula's own error is about h^4; the loss is rounded
/// at about 1e-16, and that is divided by h.
constexpr double kStep = 1e-3;
/// Part of the gradient's largest value; the largest that was measured is 7e-11.
constexpr double kTolerance = 1e-9;

/// Where f is wanted, in steps, and its derivative from the four values. Differences come first, so
/// that a constant has a derivative of exactly zero.
constexpr std::array<double, 4> kOffsets = {-2, -1, 1, 2};
double derivative(const std::array<double, 4>& f) {
  return (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * kStep);
}

class Gradients : public ::testing::TestWithParam<DecoderBlockOptions> {
 protected:
  Gradients()
      : options_(GetParam()),
        spec_(decoder_block_spec(options_)),
        x_(golden_values(file(), "X")),
        weights_(decoder_block_weights(options_, golden_file(file()), "param.")) {}

  std::string file() const {
    return options_.norm == NormKind::kRms ? "decoder_block.safetensors" : "exercise3.safetensors";
  }
  std::vector<double> golden(const std::string& name) const {
    const bool tanh = options_.mlp == DecoderBlockMlp::kGeluTanh;
    return golden_values(file(), (tanh ? "tanh." : "") + name);
  }

  /// d loss / d x, all the nudged inputs as one batch.
  std::vector<double> input_gradient(const Block& block) const {
    std::vector<double> batch;
    for (size_t i = 0; i < x_.size(); ++i) {
      for (const double offset : kOffsets) {
        batch.insert(batch.end(), x_.begin(), x_.end());
        batch[batch.size() - x_.size() + i] += offset * kStep;
      }
    }
    const auto sequences = static_cast<int64_t>(batch.size() / x_.size());
    const std::vector<double> out = block.forward(batch, sequences);
    std::vector<double> gradient(x_.size());
    auto rows = std::span(out);
    for (double& value : gradient) {
      std::array<double, 4> loss{};
      for (double& each : loss) {
        each = mean_square(rows.first(x_.size()));
        rows = rows.subspan(x_.size());
      }
      value = derivative(loss);
    }
    return gradient;
  }

  /// d loss / d w of one vector weight of the program.
  std::vector<double> weight_gradient(const Program& program, const std::string& name) const {
    WeightSources weights = weights_;
    const std::vector<double> values = to_f64(weights.at(name).tensor);
    std::vector<double> gradient(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      std::array<double, 4> loss{};
      for (size_t k = 0; k < loss.size(); ++k) {
        std::vector<double> nudged = values;
        nudged[i] += kOffsets[k] * kStep;
        const Tensor tensor = Tensor::from_f64({static_cast<int64_t>(nudged.size())}, nudged);
        weights[name] = {.tensor = tensor.view()};
        Session session(std::make_shared<BoundProgram>(program, weights),
                        {.compute = Compute::kF64, .threads = 1});
        const SequenceInput input{.sequence = session.add_sequence(), .input = x_};
        loss[k] = mean_square(session.forward_all({&input, 1}));
      }
      gradient[i] = derivative(loss);
    }
    return gradient;
  }

  DecoderBlockOptions options_;
  BlockSpec spec_;
  std::vector<double> x_;
  WeightSources weights_;
};

TEST_P(Gradients, OfTheInputAreTorchs) {
  const Block block(spec_, weights_);
  EXPECT_NEAR(mean_square(block.forward(x_, 1)), golden("loss_f64").at(0), kFloat64);
  EXPECT_TRUE(testing::close(input_gradient(block), golden("grad_X_f64"), kTolerance));
}

TEST_P(Gradients, OfTheNormsAreTorchs) {
  std::vector<std::string> parts = {".weight"};
  if (options_.norm == NormKind::kLayer) parts.emplace_back(".bias");
  const Program program = build_block_program(spec_);
  for (const std::string& part : parts) {
    for (const auto& [ours, torchs] :
         {std::pair<std::string, std::string>{"blocks.0.attn_norm", "norm1"},
          {"blocks.0.mlp_norm", "norm2"}}) {
      SCOPED_TRACE(torchs + part);
      const auto want = golden("grad_f64." + torchs + part);
      EXPECT_TRUE(testing::close(weight_gradient(program, ours + part), want, kTolerance));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lesson, Gradients,
                         ::testing::Values(kSmallBlock, kExercise3, kExercise3Tanh),
                         [](const auto& each) {
                           if (each.param.norm == NormKind::kRms) return "RmsNormSwiGlu";
                           return each.param.mlp == DecoderBlockMlp::kGelu ? "LayerNormGelu"
                                                                           : "LayerNormGeluTanh";
                         });

// ------------------------------------------------------------------ what the mistakes do to them

/// d out[i] / d x[j] with both sub-layers silenced, as a matrix.
std::vector<double> silent_jacobian(const Program& program, const WeightSources& weights,
                                    const std::vector<double>& x) {
  Session session(
      std::make_shared<BoundProgram>(program, weights),
      {.compute = Compute::kF64,
       .threads = 1,
       .sites = {{.site = Site::kAttnOut, .layer = 0}, {.site = Site::kMlpOut, .layer = 0}}});
  const auto out_of = [&](const std::vector<double>& rows) {
    const SequenceInput input{.sequence = session.add_sequence(), .input = rows};
    return session.forward_all({&input, 1}, {}, [](const TraceEvent& event, void* data) {
      std::fill_n(static_cast<double*>(data), event.value.count(), 0.0);
    });
  };
  std::vector<double> jacobian(x.size() * x.size());
  for (size_t j = 0; j < x.size(); ++j) {
    auto up = x, down = x;
    up[j] += kStep;
    down[j] -= kStep;
    const auto above = out_of(up), below = out_of(down);
    for (size_t i = 0; i < x.size(); ++i) {
      jacobian[i * x.size() + j] = (above[i] - below[i]) / (2 * kStep);
    }
  }
  return jacobian;
}

std::vector<double> diagonal(size_t size, double value) {
  std::vector<double> matrix(size * size);
  for (size_t i = 0; i < size; ++i) matrix[i * size + i] = value;
  return matrix;
}

class BrokenGradients : public Gradients {
 protected:
  Program broken(const std::string& mistake) const {
    return make_mistake(build_block_program(spec_), weights_, {mistake, -1}).program;
  }
};

// The residual path's own derivative is one, whatever the sub-layers do.
TEST_P(BrokenGradients, TheStreamPassesTheInputOnUnchanged) {
  const auto bound = [](size_t) { return 1e-12 / kStep; };
  EXPECT_TRUE(testing::close(silent_jacobian(build_block_program(spec_), weights_, x_),
                             diagonal(x_.size(), 1), bound));
  EXPECT_TRUE(testing::close(silent_jacobian(broken("residual.missing"), weights_, x_),
                             diagonal(x_.size(), 0), bound));
  EXPECT_TRUE(testing::close(silent_jacobian(broken("residual.doubled"), weights_, x_),
                             diagonal(x_.size(), 4), bound));
}

// With post-norm there is no such path: the derivative of a norm is not one.
TEST_P(BrokenGradients, PostNormHasNoUnchangedPath) {
  const auto jacobian = silent_jacobian(broken("norm.placement"), weights_, x_);
  EXPECT_FALSE(testing::close(jacobian, diagonal(x_.size(), 1), 0.1));
}

TEST_P(BrokenGradients, WeightsOfAMissingNormHaveNone) {
  const Program program = broken("norm.missing");
  for (const char* name : {"blocks.0.attn_norm.weight", "blocks.0.mlp_norm.weight"}) {
    for (double value : weight_gradient(program, name)) EXPECT_EQ(value, 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Lesson, BrokenGradients, ::testing::Values(kSmallBlock),
                         [](const auto&) { return "RmsNormSwiGlu"; });

}  // namespace
}  // namespace mainstem::lesson
