// Forms against what their mistakes are known to do to the numbers, worked out here from the right
// program's values.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "diagnose/causes_check.h"
#include "mainstem/model.h"
#include "support/compare.h"

namespace mainstem {
namespace {

using testing::form_of;

Model family(const std::string& name) {
  return Model::load(std::filesystem::path(MAINSTEM_TEST_DATA) / "golden" / "families" / name,
                     {.allow_unknown_keys = {}, .skip_tokenizer = true});
}

/// A form's program on one sequence, beside the right one.
struct Both {
  SiteValues right, wrong;
};
Both run(const Model& model, const Form& form, const std::vector<int64_t>& tokens,
         const std::vector<double>& numbers = {}) {
  const std::vector<SequenceInput> inputs{{.tokens = tokens}};
  return {testing::values_of(model.bound(), inputs),
          testing::values_of(testing::bind(form.make(numbers), model.weights()), inputs)};
}
const std::vector<int64_t> kTokens{3, 17, 5, 29, 8, 11, 2};
constexpr auto kRows = static_cast<int64_t>(7);
constexpr double kNear = 1e-12;

std::vector<Form> forms_at(const Model& model, int layer) {
  return forms(model.program(), model.weights(), layer);
}

/// Entry [h, i, j] of block 0's scores or pattern.
double square_at(const SiteValues& values, const char* site, int64_t h, int64_t i, int64_t j) {
  return values.at(std::string("blocks.0.") +
                   site)[static_cast<size_t>((h * kRows + i) * kRows + j)];
}

TEST(CauseMeaning, AnUnbiasedVarianceIsOneFactorForAllRows) {
  const Model model = family("olmo");  // LayerNorm without weights
  const Form form = form_of(forms_at(model, 0), "norm.unbiased_variance", "attn_norm");
  const Both values = run(model, form, kTokens);
  const auto& right = values.right.at("blocks.0.attn_norm");
  const auto& wrong = values.wrong.at("blocks.0.attn_norm");
  const auto n = static_cast<double>(model.spec().stack.width);
  for (size_t i = 0; i < right.size(); ++i) {
    // But for eps, which the factor does not touch.
    EXPECT_NEAR(wrong[i] / right[i], std::sqrt((n - 1) / n), 1e-2);
  }
}

TEST(CauseMeaning, EpsOutsideOfTheRoot) {
  const Model model = family("llama");
  const double eps = model.spec().stack.blocks[0].norm.eps;
  const Form form = form_of(forms_at(model, 0), "norm.eps_outside_root", "attn_norm");
  const Both values = run(model, form, kTokens);
  const auto& x = values.right.at("blocks.0.resid_pre");
  const auto& right = values.right.at("blocks.0.attn_norm");
  const auto& wrong = values.wrong.at("blocks.0.attn_norm");
  const auto width = static_cast<size_t>(model.spec().stack.width);
  for (size_t row = 0; row < static_cast<size_t>(kRows); ++row) {
    double square = 0;
    for (size_t i = 0; i < width; ++i) square += x[row * width + i] * x[row * width + i];
    square /= static_cast<double>(width);
    const double factor = std::sqrt(square + eps) / (std::sqrt(square) + eps);
    for (size_t i = 0; i < width; ++i) {
      EXPECT_NEAR(wrong[row * width + i], right[row * width + i] * factor, kNear);
    }
  }
}

TEST(CauseMeaning, APermutationOfRowsKeepsTheNumbersOfEachToken) {
  const Model model = family("llama");
  for (const Form& form : forms_at(model, 0)) {
    if (form.cause != "weight.rows_permuted") continue;
    const Both values = run(model, form, kTokens);
    for (const SiteId& site : form.shows) {
      auto right = values.right.at(to_string(site)), wrong = values.wrong.at(to_string(site));
      const auto width = static_cast<std::ptrdiff_t>(right.size()) / kRows;
      for (int64_t row = 0; row < kRows; ++row) {
        std::sort(right.begin() + row * width, right.begin() + (row + 1) * width);
        std::sort(wrong.begin() + row * width, wrong.begin() + (row + 1) * width);
      }
      EXPECT_EQ(right, wrong) << form.yours;
    }
  }
}

// Rows [q_h, k_h, v_h] of each head, taken for [Q; K; V].
TEST(CauseMeaning, PerHeadRowsReadAsBlocks) {
  const Model model = family("gpt_neox");
  const Form form = form_of(forms_at(model, 0), "attn.qkv_split", "three blocks");
  const Both values = run(model, form, kTokens);
  const AttentionSpec& spec = model.spec().stack.blocks[0].attention;
  const auto width = static_cast<size_t>(spec.head_width), heads = static_cast<size_t>(spec.heads);
  for (size_t row = 0; row < static_cast<size_t>(kRows); ++row) {
    std::vector<double> fused, read;
    for (size_t h = 0; h < heads; ++h) {
      for (const char* part : {"blocks.0.q", "blocks.0.k", "blocks.0.v"}) {
        const auto first =
            values.right.at(part).begin() + static_cast<std::ptrdiff_t>((row * heads + h) * width);
        fused.insert(fused.end(), first, first + static_cast<std::ptrdiff_t>(width));
      }
    }
    for (const char* part : {"blocks.0.q", "blocks.0.k", "blocks.0.v"}) {
      const auto first =
          values.wrong.at(part).begin() + static_cast<std::ptrdiff_t>(row * heads * width);
      read.insert(read.end(), first, first + static_cast<std::ptrdiff_t>(heads * width));
    }
    EXPECT_EQ(read, fused);
  }
}

// Rows [Q; K; V] of two kv heads, taken for [Q; k; v] of one: v is the second key head.
TEST(CauseMeaning, RowsReadAsThoseOfOneKvHead) {
  const Model model = family("phi3");
  const AttentionSpec& spec = model.spec().stack.blocks[0].attention;
  ASSERT_EQ(spec.kv_heads, 2);
  const Form form = form_of(forms_at(model, 0), "attn.qkv_split", "of 1 kv heads, three blocks");
  const Both values = run(model, form, kTokens);
  EXPECT_EQ(values.wrong.at("blocks.0.q"), values.right.at("blocks.0.q"));
  const auto& keys = values.right.at("blocks.0.k");
  const auto width = static_cast<size_t>(spec.head_width);
  for (size_t head = 0; head < static_cast<size_t>(kRows) * 2; ++head) {
    const size_t row = head / 2;
    for (size_t e = 0; e < width; ++e) {
      EXPECT_EQ(values.wrong.at("blocks.0.k")[head * width + e], keys[2 * row * width + e]);
      EXPECT_EQ(values.wrong.at("blocks.0.v")[head * width + e], keys[(2 * row + 1) * width + e]);
    }
  }
}

TEST(CauseMeaning, ADoubledPositionBias) {
  const Model model = family("falcon_rw");
  const Form form = form_of(forms_at(model, 0), "attn.position_bias", "twice");
  EXPECT_NE(form.known_fault.find("Falcon"), std::string::npos);
  const Both values = run(model, form, kTokens);
  const auto& slopes = model.spec().stack.blocks[0].attention.alibi_slopes;
  for (size_t h = 0; h < slopes.size(); ++h) {
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kRows; ++j) {
        const auto head = static_cast<int64_t>(h);
        EXPECT_NEAR(
            square_at(values.wrong, "scores", head, i, j),
            square_at(values.right, "scores", head, i, j) + slopes[h] * static_cast<double>(j),
            kNear);
      }
    }
  }
}

TEST(CauseMeaning, AHiddenOwnKeyLeavesTheFirstRowUniform) {
  const Model model = family("llama");
  const Form form = form_of(forms_at(model, 0), "attn.causal_mask", "own key");
  const Both values = run(model, form, kTokens);
  for (int64_t j = 0; j < kRows; ++j) {
    EXPECT_NEAR(square_at(values.wrong, "pattern", 1, 0, j), 1.0 / kRows, kNear);
    for (int64_t i = 1; i < kRows; ++i) {
      EXPECT_EQ(square_at(values.wrong, "pattern", 1, i, j) != 0, j < i) << i << ' ' << j;
    }
  }
}

TEST(CauseMeaning, ARowWithoutKeysMayBeZero) {
  const Model model = family("llama");
  const Both values =
      run(model, form_of(forms_at(model, 0), "attn.causal_mask", "without keys is zero"), kTokens);
  for (int64_t j = 0; j < kRows; ++j) {
    EXPECT_EQ(square_at(values.wrong, "pattern", 0, 0, j), 0);
    EXPECT_EQ(square_at(values.wrong, "pattern", 0, 1, j), j == 0 ? 1 : 0);
  }
}

TEST(CauseMeaning, AnOutputThatIsNotAddedLeavesTheStream) {
  const Model model = family("llama");
  const Both values =
      run(model, form_of(forms_at(model, 0), "residual.missing", "not added (attention only)"),
          kTokens);
  EXPECT_EQ(values.wrong.at("blocks.0.resid_mid"), values.wrong.at("blocks.0.resid_pre"));
  EXPECT_NE(values.wrong.at("blocks.0.resid_post"), values.wrong.at("blocks.0.resid_pre"));
}

TEST(CauseMeaning, ACapBehindTheMaskShowsHiddenKeys) {
  const Model model = family("gemma2");
  const Form form = form_of(forms_at(model, 0), "attn.softcap", "masked scores");
  const Both values = run(model, form, kTokens);
  const AttentionSpec& spec = model.spec().stack.blocks[0].attention;
  for (int64_t i = 0; i < kRows; ++i) {
    double sum = 0;
    std::vector<double> weights;
    for (int64_t j = 0; j < kRows; ++j) {
      const bool seen = j <= i && i - j < spec.window;
      weights.push_back(
          std::exp(seen ? square_at(values.wrong, "scores", 2, i, j) : -spec.soft_cap));
      sum += weights.back();
    }
    for (int64_t j = 0; j < kRows; ++j) {
      EXPECT_NEAR(square_at(values.wrong, "pattern", 2, i, j),
                  weights[static_cast<size_t>(j)] / sum, kNear);
    }
  }
}

TEST(CauseMeaning, KvHeadsThatAreTiled) {
  const Model model = family("llama");
  const AttentionSpec& spec = model.spec().stack.blocks[0].attention;
  const Form form = form_of(forms_at(model, 0), "attn.gqa_mapping", "mod K");
  const Both values = run(model, form, kTokens);
  const auto& q = values.right.at("blocks.0.q_rot");
  const auto& k = values.right.at("blocks.0.k_rot");
  const int64_t width = spec.head_width;
  for (int64_t h = 0; h < spec.heads; ++h) {
    double product = 0;
    for (int64_t e = 0; e < width; ++e) {
      product += q[static_cast<size_t>((4 * spec.heads + h) * width + e)] *
                 k[static_cast<size_t>((2 * spec.kv_heads + h % spec.kv_heads) * width + e)];
    }
    EXPECT_NEAR(square_at(values.wrong, "scores", h, 4, 2), product * spec.score_scale, kNear);
  }
}

TEST(CauseMeaning, HeadsThatWereNotMovedBack) {
  const Model model = family("gemma");
  const Form form = form_of(forms_at(model, 0), "attn.head_merge", "[H,T,E]");
  const Program edited = form.make({}).program;
  // The step behind attention, on numbers that say where they were.
  const auto custom = std::find_if(edited.steps.begin(), edited.steps.end(),
                                   [](const Step& step) { return step.op == Op::kCustom; });
  ASSERT_NE(custom, edited.steps.end());
  const AttentionSpec& spec = model.spec().stack.blocks[0].attention;
  const int64_t heads = spec.heads, width = spec.head_width, tokens = 3;
  std::vector<double> mix, merged(static_cast<size_t>(tokens * heads * width));
  for (size_t i = 0; i < merged.size(); ++i) mix.push_back(static_cast<double>(i));
  const std::span<const double> input(mix);
  std::get<CustomParams>(custom->params).apply_sequence({&input, 1}, merged, tokens);
  for (int64_t flat = 0; flat < tokens * heads * width; ++flat) {
    const int64_t h = flat / (tokens * width), t = flat / width % tokens, e = flat % width;
    EXPECT_EQ(merged[static_cast<size_t>(flat)],
              mix[static_cast<size_t>((t * heads + h) * width + e)]);
  }
}

TEST(CauseMeaning, AnglesOfOneFormAndPairsOfTheOther) {
  const Model model = family("cohere");
  const Form form = form_of(forms_at(model, 0), "rope.pairing", "by the angles");
  EXPECT_NE(form.known_fault.find("TransformerLens"), std::string::npos);
  const Both values = run(model, form, kTokens);
  const auto width = static_cast<size_t>(model.spec().stack.blocks[0].attention.head_width);
  const double base = model.spec().stack.blocks[0].attention.rotary->base;
  const auto& q = values.right.at("blocks.0.q_norm");
  const size_t row = 3 * 4 * width;  // position 3, head 0
  for (size_t e = 0; e < width; ++e) {
    const double angle =
        3 * std::pow(base, -2.0 * static_cast<double>(e / 2) / static_cast<double>(width));
    const double partner = e < width / 2 ? -q[row + e + width / 2] : q[row + e - width / 2];
    EXPECT_NEAR(values.wrong.at("blocks.0.q_rot")[row + e],
                q[row + e] * std::cos(angle) + partner * std::sin(angle), kNear);
  }
}

TEST(CauseMeaning, HalvesByTheAnglesOfNeighbours) {
  const Model model = family("qwen2");
  const Form form =
      form_of(forms_at(model, 0), "rope.pairing", "halves turn, by the angles of an interleaved");
  const Both values = run(model, form, kTokens);
  const AttentionSpec& spec = model.spec().stack.blocks[0].attention;
  const auto width = static_cast<size_t>(spec.head_width);
  ASSERT_EQ(spec.rotary->width, spec.head_width);
  const auto& q = values.right.at("blocks.0.q");
  const size_t row = 3 * static_cast<size_t>(spec.heads) * width;  // position 3, head 0
  for (size_t e = 0; e < width; ++e) {
    const double angle = 3 * std::pow(spec.rotary->base, -2.0 * static_cast<double>(e / 2) /
                                                             static_cast<double>(width));
    const double partner = e < width / 2 ? -q[row + e + width / 2] : q[row + e - width / 2];
    EXPECT_NEAR(values.wrong.at("blocks.0.q_rot")[row + e],
                q[row + e] * std::cos(angle) + partner * std::sin(angle), kNear);
  }
}

TEST(CauseMeaning, WrongSlopesAreRoundedAsTheRightOnesAre) {
  const Model model = family("falcon_rw");
  const AttentionSpec& spec = model.spec().stack.blocks[0].attention;
  ASSERT_EQ(spec.heads, 6);
  const Form form = form_of(forms_at(model, 0), "attn.position_bias", "power of two, rounded");
  const Edited edited = form.make({});
  const auto step = std::find_if(edited.program.steps.begin(), edited.program.steps.end(),
                                 [](const Step& each) { return each.op == Op::kAttention; });
  ASSERT_NE(step, edited.program.steps.end());
  const auto& slopes = std::get<AttentionParams>(step->params).alibi_slopes;
  for (size_t h = 0; h < 6; ++h) {
    const auto exact = static_cast<float>(std::exp2(-8.0 * static_cast<double>(h + 1) / 6));
    EXPECT_NEAR(slopes[h], bf16_to_f32(f32_to_bf16(exact)) * spec.score_scale, 1e-12);
  }
}

// ------------------------------------------------------------------ passes that go on

/// Values of the second of two passes.
SiteValues second_pass(const std::shared_ptr<const BoundProgram>& bound,
                       const std::vector<int64_t>& first, const std::vector<int64_t>& second) {
  Session session(bound,
                  {.compute = Compute::kF64, .threads = 1, .sites = all_sites(bound->program())});
  SequenceInput input{.sequence = session.add_sequence(), .tokens = first};
  session.forward_all({&input, 1});
  input.tokens = second;
  SiteValues values;
  session.forward_all({&input, 1}, [&](const TraceEvent& event) {
    values[to_string(event.site)] = to_f64(event.value);
  });
  return values;
}

TEST(CauseMeaning, AMaskOfAChunkAnchoredAtTheFirstKey) {
  const Model model = family("llama");
  const Form form = form_of(forms_at(model, 0), "attn.causal_mask", "later chunk");
  const auto wrong = testing::bind(form.make({}), model.weights());
  const std::vector<int64_t> second{11, 2, 9};
  const SiteValues right_values = second_pass(model.bound(), {3, 17, 5, 29}, second);
  const SiteValues wrong_values = second_pass(wrong, {3, 17, 5, 29}, second);
  EXPECT_EQ(wrong_values.at("blocks.0.scores"), right_values.at("blocks.0.scores"));
  const auto& pattern = wrong_values.at("blocks.0.pattern");
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 7; ++j) EXPECT_EQ(pattern[i * 7 + j] != 0, j <= i);
  }
}

TEST(CauseMeaning, PositionsThatRestartInEveryPass) {
  const std::vector<int64_t> second{11, 2, 9};
  for (const auto& [name, cause, site] :
       {std::tuple("llama", "rope.position", "blocks.0.q_rot"),
        std::tuple("gpt2", "embed.position_offset", "pos_embed")}) {
    const Model model = family(name);
    const Form form =
        form_of(forms_at(model, std::string(site) == "pos_embed" ? -1 : 0), cause, "restart");
    const auto wrong = testing::bind(form.make({}), model.weights());
    const SiteValues again = second_pass(wrong, {3, 17, 5, 29}, second);
    const SiteValues fresh = testing::values_of(model.bound(), {{.tokens = second}});
    EXPECT_TRUE(testing::close(again.at(site), fresh.at(site), 1e-14)) << name;
    EXPECT_FALSE(testing::close(second_pass(model.bound(), {3, 17, 5, 29}, second).at(site),
                                fresh.at(site), 1e-3));
  }
}

TEST(CauseMeaning, PaddingThatCountsAsPositions) {
  for (const auto& [name, cause, site] :
       {std::tuple("llama", "rope.position", "blocks.0.q_rot"),
        std::tuple("gpt2", "embed.position_offset", "pos_embed")}) {
    const Model model = family(name);
    const Form form =
        form_of(forms_at(model, std::string(site) == "pos_embed" ? -1 : 0), cause, "padding");
    const auto wrong = testing::bind(form.make({}), model.weights());
    const SiteValues padded =
        testing::values_of(wrong, {{.tokens = {1, 1, 5, 29, 8}, .left_padding = 2}});
    const SiteValues whole = testing::values_of(model.bound(), {{.tokens = {1, 1, 5, 29, 8}}});
    EXPECT_EQ(padded.at(site), whole.at(site)) << name;
  }
}

}  // namespace
}  // namespace mainstem
