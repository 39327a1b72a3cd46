// The loss of a text in windows, against transformers (tests/generators/make_tiny_llama.py).

#include "mainstem/score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "mainstem/error.h"
#include "mainstem/safetensors.h"
#include "support/bounds.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

constexpr double kEps64 = std::numeric_limits<double>::epsilon();
constexpr double kEps32 = std::numeric_limits<float>::epsilon();
constexpr int64_t kContext = 128;

const std::filesystem::path kFolder =
    std::filesystem::path(MAINSTEM_TEST_DATA) / "golden" / "tiny_llama";

Model tiny_llama() {
  return Model::load(kFolder, {.allow_unknown_keys = {}, .skip_tokenizer = true});
}

class GoldenScores {
 public:
  GoldenScores() : file_(SafetensorsFile::open(kFolder / "golden.safetensors")) {}
  std::vector<int64_t> tokens() const {
    const TensorView view = file_.view("score.tokens");
    const auto ids = view.as<int64_t>();
    return {ids.begin(), ids.end()};
  }
  /// [mean, count]
  std::vector<double> of(int64_t context, bool begin) const {
    return to_f64(file_.view("score." + std::to_string(context) + (begin ? ".begin" : "")));
  }

 private:
  SafetensorsFile file_;
};

std::vector<int64_t> random_tokens(int64_t count, int64_t vocab) {
  Dice dice(3);
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(dice.below(vocab));
  return tokens;
}

/// The same sum the naive way: all logits of one pass.
double loss_of_window(const TestModel& model, const std::vector<int64_t>& tokens) {
  Session session(model.bound, {.compute = Compute::kF64});
  SequenceInput input;
  input.sequence = session.add_sequence();
  input.tokens = tokens;
  const std::vector<double> logits = session.forward_all({&input, 1});
  const auto vocab = static_cast<size_t>(model.spec.vocab_size);
  double sum = 0;
  for (size_t t = 0; t + 1 < tokens.size(); ++t) {
    double total = 0;
    for (size_t i = 0; i < vocab; ++i) total += std::exp(logits[t * vocab + i]);
    sum -= logits[t * vocab + static_cast<size_t>(tokens[t + 1])] - std::log(total);
  }
  return sum / static_cast<double>(tokens.size() - 1);
}

::testing::AssertionResult is_usage_error(const std::function<void()>& body,
                                          const std::string& word) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUsage &&
        std::string(error.what()).find(word) != std::string::npos) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << error.what();
  }
  return ::testing::AssertionFailure() << "no error";
}

/// A logit differs by at most `bound` of the largest, and the loss by at most twice the logit.
TEST(Score, WindowsEqualTransformers) {
  const Model model = tiny_llama();
  const GoldenScores golden;
  const std::vector<int64_t> tokens = golden.tokens(), begin{1};
  constexpr double kLargestLogit = 16;
  for (Compute compute : {Compute::kF64, Compute::kF32}) {
    const double bound =
        2 * kLargestLogit * bounds::end_to_end(compute == Compute::kF64 ? kEps64 : kEps32, 3);
    for (int64_t context : {int64_t{128}, int64_t{75}, int64_t{50}, int64_t{37}, int64_t{2}}) {
      for (bool with_begin : {false, true}) {
        const std::vector<double> want = golden.of(context, with_begin);
        for (int64_t rows : {0, 1, 7}) {
          const Score got =
              score(model.bound(), tokens, with_begin ? begin : std::vector<int64_t>{},
                    {.context = context, .compute = compute, .threads = 1, .rows = rows});
          EXPECT_NEAR(got.nll, want[0], bound) << context << " " << with_begin << " " << rows;
          EXPECT_EQ(static_cast<double>(got.tokens), want[1]);
          EXPECT_EQ(got.context, context);
          EXPECT_DOUBLE_EQ(got.perplexity(), std::exp(got.nll));
        }
      }
    }
  }
}

TEST(Score, TheDefaultWindowIsTheContext) {
  const Model model = tiny_llama();
  const std::vector<int64_t> tokens = GoldenScores().tokens();
  const Score whole = score(model.bound(), tokens, {}, {.compute = Compute::kF64});
  EXPECT_EQ(whole.context, kContext);
  EXPECT_EQ(whole.windows, 2);
  EXPECT_EQ(whole.nll,
            score(model.bound(), tokens, {}, {.context = kContext, .compute = Compute::kF64}).nll);
}

TEST(Score, NoTokenOfALongerPrefixIsPredicted) {
  const Model model = tiny_llama();
  const std::vector<int64_t> text{5, 4, 3}, prefix{1, 7}, both{1, 7, 5, 4, 3};
  const ScoreOptions options{.compute = Compute::kF64, .rows = 1};
  const double all = 4 * score(model.bound(), both, {}, options).nll;
  const double of_prefix = score(model.bound(), prefix, {}, options).nll;
  const Score got = score(model.bound(), text, prefix, options);
  EXPECT_EQ(got.tokens, 3);
  EXPECT_NEAR(got.nll, (all - of_prefix) / 3, 100 * kEps64 * all);
}

TEST(Score, ProgressEndsAtTheTextsLength) {
  const Model model = tiny_llama();
  const std::vector<int64_t> tokens = GoldenScores().tokens(), begin{1};
  int64_t last = 0;
  score(model.bound(), tokens, begin,
        {.context = 40, .rows = 9, .progress = [&](int64_t done, int64_t total) {
           EXPECT_EQ(total, static_cast<int64_t>(tokens.size()));
           EXPECT_GE(done, last);
           last = done;
         }});
  EXPECT_EQ(last, static_cast<int64_t>(tokens.size()));
}

TEST(Score, WhatProgressThrowsComesOut) {
  struct Stop {};
  const auto stop = [](int64_t, int64_t) { throw Stop{}; };
  EXPECT_THROW(score(tiny_llama().bound(), GoldenScores().tokens(), {}, {.progress = stop}), Stop);
}

TEST(Score, RotaryScalingByLengthSeesTheWholeWindow) {
  ModelSpec spec = small_decoder();
  spec.context_length = 64;
  for (BlockSpec& block : spec.stack.blocks) {
    RotarySpec& rotary = block.attention.rotary.emplace();
    rotary.width = block.attention.head_width / 2 * 2;
    rotary.scaling.kind = RotaryScalingKind::kDynamic;
    rotary.scaling.factor = 4;
    rotary.scaling.original_context = 10;
  }
  const TestModel model = make_model(spec, 5);
  for (int64_t length : {9, 10, 11, 30}) {
    const std::vector<int64_t> tokens = random_tokens(length, spec.vocab_size);
    const Score got = score(model.bound, tokens, {}, {.compute = Compute::kF64, .rows = 4});
    EXPECT_NEAR(got.nll, loss_of_window(model, tokens), 1e3 * kEps64) << length;
  }
}

TEST(Score, LikelihoodIsSoundWhereExponentialsAreNot) {
  const std::vector<double> large{1000, 1001, -1000};
  EXPECT_NEAR(negative_log_likelihood(large, 0), 1 + std::log1p(std::exp(-1)), 1e-13);
  EXPECT_NEAR(negative_log_likelihood(large, 2), 2001 + std::log1p(std::exp(-1)), 1e-12);
  // A sure token costs the others' share, which 1 - p would lose.
  const std::vector<double> sure{0, -30};
  EXPECT_NEAR(negative_log_likelihood(sure, 0), std::log1p(std::exp(-30)),
              std::numeric_limits<double>::epsilon());
  const std::vector<double> broken{0, std::nan(""), 1};
  EXPECT_TRUE(std::isnan(negative_log_likelihood(broken, 0)));
}

TEST(Score, OnlyDecodersWithAHead) {
  Dice dice(1);
  const std::vector<int64_t> tokens{1, 2, 3};
  const auto scoring = [&](const ModelSpec& spec) {
    return [bound = make_model(spec, 1).bound, &tokens, spec] {
      score(bound, tokens, {}, {.context = 3});
    };
  };
  EXPECT_TRUE(is_usage_error(scoring(random_spec(dice, Kind::kEncoder)), "encoder"));
  EXPECT_TRUE(is_usage_error(scoring(random_spec(dice, Kind::kEncoderDecoder)), "encoder-decoder"));
  ModelSpec headless = small_decoder();
  headless.head.kind = HeadKind::kNone;
  EXPECT_TRUE(is_usage_error(scoring(headless), "head"));
}

TEST(Score, WhatCannotBeScoredIsAUsageError) {
  const Model model = tiny_llama();
  const std::vector<int64_t> tokens{1, 2, 3}, begin{1};
  const auto scoring = [&](std::vector<int64_t> ids, std::vector<int64_t> prefix, int64_t context) {
    return [&model, ids = std::move(ids), prefix = std::move(prefix), context] {
      score(model.bound(), ids, prefix, {.context = context});
    };
  };
  EXPECT_TRUE(is_usage_error(scoring(tokens, {}, kContext + 1), "128"));
  EXPECT_TRUE(is_usage_error(scoring(tokens, {}, 1), "at least 2"));
  EXPECT_TRUE(is_usage_error(scoring(tokens, {1, 2}, 2), "at least 3"));
  EXPECT_TRUE(is_usage_error(scoring({}, {}, 0), "two tokens"));
  EXPECT_TRUE(is_usage_error(scoring({5}, {}, 0), "two tokens"));
  EXPECT_TRUE(is_usage_error(scoring({}, begin, 0), "one token"));
  EXPECT_TRUE(is_usage_error(scoring({1, 97}, {}, 0), "97"));
  EXPECT_TRUE(is_usage_error([&] { score(model, "text"); }, "tokenizer"));
  EXPECT_EQ(score(model.bound(), std::vector<int64_t>{5}, begin).tokens, 1);

  ModelSpec unknown = small_decoder();
  unknown.context_length = 0;
  const TestModel other = make_model(unknown, 1);
  EXPECT_TRUE(is_usage_error([&] { score(other.bound, tokens, {}); }, "context"));
}

}  // namespace
}  // namespace mainstem::testing
