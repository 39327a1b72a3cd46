// Two mistakes in one block of which the dump has nothing but the outputs: neither explains the
// error alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "diagnose/causes_check.h"
#include "diagnose/made_dump.h"
#include "diagnose/report_text.h"
#include "mainstem/check.h"
#include "mainstem/doctor.h"

namespace mainstem {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using namespace mainstem::testing;

struct Case {
  std::string family, first, second;
  DType dtype = DType::kF32;
};

/// Outputs of blocks of a model in which both mistakes are made, in the blocks that they name.
Dump block_outputs(const Model& model, const Case& each) {
  BrokenModel broken = make_mistake(model.program(), model.weights(), parse_mistake(each.first));
  broken = make_mistake(broken.program, broken.weights, parse_mistake(each.second));
  MadeDump dump(std::make_shared<BoundProgram>(broken.program, broken.weights),
                some_input(model, 12), {.compute = Compute::kF32});
  dump.keep([](const std::string& name) {
    return name == "tokens" || name == "embed" || name.ends_with("resid_post");
  });
  dump.store_as(each.dtype);
  return dump.open();
}

std::vector<std::string> ids_of(const DoctorReport& report) {
  std::vector<std::string> ids;
  for (const Cause& cause : report.causes) {
    ids.push_back(cause.id + " " + std::string(name(cause.status)));
  }
  return ids;
}

class DoctorPairs : public ::testing::TestWithParam<Case> {};

TEST_P(DoctorPairs, BothAreProved) {
  const Model model = load_family(GetParam().family);
  const auto bare = [](const std::string& id) { return id.substr(0, id.find('@')); };
  const DoctorReport report = doctor(model, block_outputs(model, GetParam()), {.threads = 1});
  EXPECT_THAT(ids_of(report), UnorderedElementsAre(bare(GetParam().first) + " proved",
                                                   bare(GetParam().second) + " proved"))
      << text_of(report);
  ASSERT_TRUE(report.total_predicted.has_value());
  EXPECT_LT(*report.total_predicted, 1e-4) << "a run with both in it makes the same values";
}

INSTANTIATE_TEST_SUITE_P(
    All, DoctorPairs,
    ::testing::Values(Case{"llama", "rope.missing@1", "mlp.activation@1"},
                      Case{"llama", "rope.base@1", "attn.causal_mask@1"},
                      // In every block: the pair is known after the first.
                      Case{"mistral", "attn.gqa_mapping", "norm.eps"},
                      Case{"gpt2", "attn.scale@1", "mlp.activation@1"},
                      Case{"gemma2", "attn.softcap@1", "norm.weight_offset@1"},
                      Case{"gpt_neox", "rope.partial@1", "attn.head_merge@1"},
                      Case{"qwen3", "qk_norm.missing@1", "residual.scale@1"},
                      Case{"bert", "bias.missing@1", "norm.unbiased_variance@1"}),
    [](const auto& test) {
      std::string text = test.param.family + "_" + test.param.first + "_" + test.param.second;
      std::replace_if(text.begin(), text.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
      return text;
    });

// One of both is no pair, and what is no known mistake is not made of two known ones.
TEST(DoctorPairsOf, AnUnknownErrorIsNoPair) {
  const Model model = load_family("llama");
  const SequenceInput input = some_input(model, 12);
  MadeDump dump(model.bound(), input, {.compute = Compute::kF32});
  dump.keep([](const std::string& name) {
    return name == "tokens" || name == "embed" || name.ends_with("resid_post");
  });
  // Half of the channels of one block's output are another's.
  const Tensor& before = dump.at("blocks.0.resid_post");
  Tensor& after = dump.at("blocks.1.resid_post");
  Tensor mixed(DType::kF32, after.shape());
  const int64_t width = after.shape().back();
  for (int64_t i = 0; i < mixed.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    mixed.data<float>()[i] = i % width < width / 2 ? before.as<float>()[at] : after.as<float>()[at];
  }
  after = mixed;
  const DoctorReport report = doctor(model, dump.open(), {.threads = 1});
  EXPECT_THAT(ids_of(report), ::testing::Each("unknown unknown")) << text_of(report);
}

// Two values stand on one that the dump lacks: of the forms that fit the first of them that is
// taken which fits the second, too.
TEST(DoctorPairsOf, OneMistakeBehindWhichTwoValuesStandIsOne) {
  const Model model = load_family("llama");
  const auto form = find_form(model.program(), model.weights(), 1, false, "residual.doubled",
                              "the stream is added several times (attention only)");
  ASSERT_TRUE(form);
  MadeDump dump(bind(form->make(std::vector<double>{2}), model.weights()), some_input(model, 12),
                {.compute = Compute::kF32});
  dump.keep([](const std::string& name) { return name != "blocks.1.resid_mid"; });
  const DoctorReport report = doctor(model, dump.open(), {.threads = 1});
  EXPECT_THAT(ids_of(report), ElementsAre("residual.doubled proved")) << text_of(report);
  EXPECT_THAT(report.causes[0].sites, ElementsAre("blocks.1.mlp_norm", "blocks.1.resid_post"));
  ASSERT_TRUE(report.total_predicted.has_value());
  EXPECT_LT(*report.total_predicted, 1e-5);
}

class DoctorEveryBlock : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

// Nothing but the logits, and the mistake in every block: in none of them alone.
TEST_P(DoctorEveryBlock, IsProvedByTheLogitsAlone) {
  const auto& [family, mistake] = GetParam();
  const Model model = load_family(family);
  const BrokenModel broken = make_mistake(model.program(), model.weights(), parse_mistake(mistake));
  MadeDump dump(std::make_shared<BoundProgram>(broken.program, broken.weights),
                some_input(model, 12), {.compute = Compute::kF32});
  dump.keep([](const std::string& name) { return name == "tokens" || name == "logits"; });
  const DoctorReport report = doctor(model, dump.open(), {.threads = 1});
  EXPECT_THAT(ids_of(report), UnorderedElementsAre(mistake + " proved")) << text_of(report);
  std::vector<int> blocks;
  for (size_t i = 0; i < model.spec().stack.blocks.size(); ++i)
    blocks.push_back(static_cast<int>(i));
  ASSERT_EQ(report.causes.size(), 1);
  EXPECT_EQ(report.causes[0].layers, blocks);
  ASSERT_TRUE(report.total_predicted.has_value());
  EXPECT_LT(*report.total_predicted, 1e-4);
}

// One class serves all norms, that behind the blocks, too; the dump has nothing else, or ends in
// the stream of the last block but one.
TEST(DoctorEveryNorm, IsProvedByTheLogitsAlone) {
  const Model model = load_family("llama");
  Program program = model.program();
  for (Step& step : program.steps) {
    if (auto* norm = std::get_if<NormParams>(&step.params)) norm->norm.eps = 0.03;
  }
  const MadeDump made(std::make_shared<BoundProgram>(program, model.weights()),
                      some_input(model, 12), {.compute = Compute::kF32});
  const auto blocks = static_cast<int>(model.spec().stack.blocks.size());
  const std::string last_but_one = "blocks." + std::to_string(blocks - 2) + ".resid_post";
  for (const std::string& stream : {std::string("none"), last_but_one}) {
    MadeDump dump = made;
    dump.keep([&](const std::string& name) {
      return name == "tokens" || name == "logits" || name == stream;
    });
    const DoctorReport report = doctor(model, dump.open(), {.threads = 1});
    const std::vector<std::string> ids = ids_of(report);
    EXPECT_THAT(ids, ::testing::Each("norm.eps proved")) << stream << "\n" << text_of(report);
    ASSERT_TRUE(report.total_predicted.has_value());
    EXPECT_LT(*report.total_predicted, 1e-5) << stream;
    EXPECT_THAT(report.causes[0].parameters, ::testing::Contains(::testing::Pair("eps", "0.03")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, DoctorEveryBlock,
                         ::testing::Values(std::pair{"llama", "rope.missing"},
                                           std::pair{"gpt2", "mlp.activation"},
                                           std::pair{"gemma2", "attn.softcap"},
                                           std::pair{"mistral", "attn.gqa_mapping"},
                                           std::pair{"llama", "norm.eps"}),
                         [](const auto& test) {
                           std::string text = test.param.first + "_" + test.param.second;
                           std::replace(text.begin(), text.end(), '.', '_');
                           return text;
                         });

}  // namespace
}  // namespace mainstem
