// Mistakes in dumps that hold a few values only, or name them as code does that never had the
// others: the doctor proves the cause where it can still be told.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "diagnose/causes_check.h"
#include "diagnose/made_dump.h"
#include "mainstem/doctor.h"

namespace mainstem {
namespace {

using namespace mainstem::testing;

struct Partial {
  std::string what, family, cause, form;
  int layer = 0;
  std::vector<std::string> keep;
  std::string site;  ///< where it is found
  std::vector<double> numbers = {};
  DType stored = DType::kF32;
};

std::vector<Partial> partial_dumps() {
  const std::string named = "named by where they stand";
  const std::string in_sum = "the sum is x + m · f(x) with another m";
  return {
      {"qk_norm",
       "qwen3",
       "qk_norm.order",
       named,
       1,
       {"blocks.1.q", "blocks.1.k", "blocks.1.q_rot", "blocks.1.k_rot"},
       "blocks.1.q_rot"},
      {"factor",
       "llama",
       "rope.scaling",
       "another factor",
       0,
       {"blocks.0.q", "blocks.0.k", "blocks.0.q_rot", "blocks.0.k_rot"},
       "blocks.0.q_rot",
       {32}},
      {"unpublished_factor",
       "llama",
       "rope.scaling",
       "another factor",
       0,
       {"blocks.0.q", "blocks.0.k", "blocks.0.q_rot", "blocks.0.k_rot"},
       "blocks.0.q_rot",
       {23}},
      {"type_rows",
       "bert",
       "embed.token_type",
       "are zeros",
       -1,
       {"tokens", "token_embed", "type_embed"},
       "type_embed"},
      {"no_type_rows",
       "bert",
       "embed.token_type",
       "are zeros",
       -1,
       {"tokens", "token_embed", "pos_embed", "embed_sum"},
       "embed_sum"},
      {"table",
       "qwen3",
       "embed.scale",
       "another number themselves",
       -1,
       {"tokens", "token_embed"},
       "token_embed",
       {0.37}},
      {"sum",
       "llama",
       "residual.scale",
       in_sum,
       0,
       {"blocks.0.resid_pre", "blocks.0.attn_out", "blocks.0.resid_mid"},
       "blocks.0.resid_mid",
       {0.5}},
      {"sum_behind_attn_proj",
       "llama",
       "residual.scale",
       in_sum,
       0,
       {"blocks.0.resid_pre", "blocks.0.attn_proj", "blocks.0.resid_mid"},
       "blocks.0.resid_mid",
       {0.5}},
      {"sum_in_bf16",
       "llama",
       "residual.scale",
       in_sum,
       0,
       {"blocks.0.resid_pre", "blocks.0.attn_out", "blocks.0.resid_mid"},
       "blocks.0.resid_mid",
       {0.5},
       DType::kBF16},
      {"stream_in_bf16",
       "llama",
       "residual.scale",
       in_sum,
       0,
       {"blocks.0.resid_pre", "blocks.0.resid_mid"},
       "blocks.0.resid_mid",
       {0.5},
       DType::kBF16},
      {"heads",
       "gemma",
       "attn.head_merge",
       "[H,T,E] taken for [T,H·E]: the head axis was not moved "
       "back, in attn_mix itself",
       1,
       {"blocks.1.q_rot", "blocks.1.k_rot", "blocks.1.v", "blocks.1.attn_mix",
        "blocks.1.attn_proj"},
       "blocks.1.attn_mix"},
  };
}

class PartialCauseDump : public ::testing::TestWithParam<Partial> {};

TEST_P(PartialCauseDump, ShowsItsCause) {
  const Partial& made = GetParam();
  const Model model = load_family(made.family);
  const Form form =
      form_of(forms(model.program(), model.weights(), made.layer), made.cause, made.form);
  const SequenceInput input = some_input(model, 11);
  SessionOptions how{.compute = Compute::kF32};
  if (made.stored == DType::kBF16) {
    how = {.compute = Compute::kF64, .arithmetic = {ArithmeticType::kBF16, 0}};
  }
  MadeDump dump(bind(form.make(made.numbers), model.weights()), input, how);
  dump.store_as(made.stored);
  dump.keep([&](const std::string& name) {
    return std::find(made.keep.begin(), made.keep.end(), name) != made.keep.end();
  });
  const DoctorReport report = doctor(model, dump.open(), {.tokens = input.tokens, .threads = 1});
  ASSERT_EQ(report.causes.size(), 1U);
  EXPECT_EQ(report.causes[0].id, made.cause);
  EXPECT_EQ(report.causes[0].status, CauseStatus::kProved) << report.causes[0].left;
  ASSERT_FALSE(report.causes[0].sites.empty());
  EXPECT_EQ(report.causes[0].sites[0], made.site);
  for (double number : made.numbers) {
    const auto& parameters = report.causes[0].parameters;
    EXPECT_TRUE(std::any_of(parameters.begin(), parameters.end(), [&](const auto& each) {
      return each.first == form.numbers[0].name &&
             std::abs(std::stod(each.second) / number - 1) < 1e-2;
    })) << number;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, PartialCauseDump, ::testing::ValuesIn(partial_dumps()),
                         [](const auto& each) { return each.param.what; });

}  // namespace
}  // namespace mainstem
