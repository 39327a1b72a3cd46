// Forms of texts that came in several passes, against what each pass makes on its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "diagnose/causes_check.h"
#include "support/random_model.h"

namespace mainstem {
namespace {

using testing::form_of;

constexpr int64_t kTokens = 7, kFirst = 3;
constexpr double kNear = 1e-12;

/// Rotary positions whose base grows from four tokens on; every mask is causal.
ModelSpec dynamic_decoder() {
  ModelSpec spec = testing::small_decoder();
  spec.stack.blocks.resize(1);
  AttentionSpec& attention = spec.stack.blocks[0].attention;
  attention.mask = MaskKind::kCausal;
  attention.rotary->width = attention.head_width;
  attention.rotary->base = 700;
  RotaryScaling& scaling = attention.rotary->scaling;
  scaling.kind = RotaryScalingKind::kDynamic;
  scaling.factor = 2;
  scaling.original_context = 4;
  return spec;
}

class Passes : public ::testing::Test {
 protected:
  Passes() : model_(testing::make_model(dynamic_decoder(), 3)) {
    for (int64_t t = 0; t < kTokens; ++t) tokens_.push_back((7 * t + 3) % model_.spec.vocab_size);
  }

  SiteValues values(const std::shared_ptr<const BoundProgram>& bound) const {
    return testing::values_of(bound, {{.tokens = tokens_}});
  }
  SiteValues with(const std::string& cause, const std::string& part) const {
    const Form form = form_of(forms(model_.program(), model_.sources, 0), cause, part);
    const std::vector<double> numbers(form.numbers.size(), kFirst);
    return values(testing::bind(form.make(numbers), model_.sources));
  }
  int64_t row_width() const { return model_.spec.stack.blocks[0].attention.heads * width(); }
  int64_t width() const { return model_.spec.stack.blocks[0].attention.head_width; }

  /// Row t of q, turned as at a position of a text of so many tokens.
  std::vector<double> turned(const SiteValues& right, int64_t t, int64_t position,
                             int64_t length) const {
    const auto& q = right.at("blocks.0.q");
    const double grown = length <= 4 ? 1.0 : 2.0 * static_cast<double>(length) / 4 - 1;
    const auto e = static_cast<double>(width());
    const double base = 700 * std::pow(grown, e / (e - 2));
    std::vector<double> row;
    for (int64_t c = 0; c < row_width(); ++c) {
      const int64_t j = c % width() % (width() / 2);
      const bool early = c % width() < width() / 2;
      const auto at = static_cast<size_t>(t * row_width() + c);
      const auto half = static_cast<size_t>(width() / 2);
      const double angle =
          static_cast<double>(position) * std::pow(base, -2.0 * static_cast<double>(j) / e);
      row.push_back(q[at] * std::cos(angle) +
                    (early ? -q[at + half] : q[at - half]) * std::sin(angle));
    }
    return row;
  }
  void expect_row(const SiteValues& wrong, int64_t t, const std::vector<double>& expected) const {
    for (int64_t c = 0; c < row_width(); ++c) {
      EXPECT_NEAR(wrong.at("blocks.0.q_rot")[static_cast<size_t>(t * row_width() + c)],
                  expected[static_cast<size_t>(c)], kNear)
          << "row " << t << ", channel " << c;
    }
  }
  /// How many keys a row sees.
  int64_t seen(const SiteValues& wrong, int64_t t) const {
    int64_t count = 0;
    for (int64_t j = 0; j < kTokens; ++j) {
      if (wrong.at("blocks.0.pattern")[static_cast<size_t>(t * kTokens + j)] != 0) ++count;
    }
    return count;
  }

  testing::TestModel model_;
  std::vector<int64_t> tokens_;
};

TEST_F(Passes, PositionsRestart) {
  const SiteValues right = values(model_.bound);
  const std::pair<const char*, std::vector<int64_t>> cuts[] = {
      {"every token behind", {0, 1, 2, 0, 0, 0, 0}},
      {"as many tokens", {0, 1, 2, 0, 1, 2, 0}},
      {"all that follows", {0, 1, 2, 0, 1, 2, 3}},
  };
  for (const auto& [part, positions] : cuts) {
    const SiteValues wrong = with("rope.position", part);
    for (int64_t t = 0; t < kTokens; ++t) {
      expect_row(wrong, t, turned(right, t, positions[static_cast<size_t>(t)], kTokens));
    }
  }
}

TEST_F(Passes, MasksRestart) {
  const std::pair<const char*, std::vector<int64_t>> cuts[] = {
      {"every token behind", {1, 2, 3, 1, 1, 1, 1}},
      {"as many tokens", {1, 2, 3, 1, 2, 3, 1}},
      {"all that follows", {1, 2, 3, 1, 2, 3, 4}},
  };
  for (const auto& [part, counts] : cuts) {
    const SiteValues wrong = with("attn.causal_mask", part);
    for (int64_t t = 0; t < kTokens; ++t) {
      EXPECT_EQ(seen(wrong, t), counts[static_cast<size_t>(t)]) << part << ", row " << t;
    }
  }
}

TEST_F(Passes, FrequenciesOfTheTime) {
  const SiteValues right = values(model_.bound);
  const SiteValues wrong = with("rope.scaling", "at its own time");
  for (int64_t t = 0; t < kTokens; ++t) {
    expect_row(wrong, t, turned(right, t, t, std::max(kFirst, t + 1)));
    expect_row(right, t, turned(right, t, t, kTokens));
  }
}

TEST_F(Passes, ABaseThatHasGrownAtOnce) {
  const SiteValues right = values(model_.bound);
  const std::pair<const char*, double> growths[] = {{"grown by the factor", 2},
                                                    {"the longest text", 3}};
  for (const auto& [part, growth] : growths) {
    // The length at which the base of the right formula has grown as far.
    const auto length = static_cast<int64_t>((growth + 1) * 4 / 2);
    const SiteValues wrong = with("rope.scaling", part);
    for (int64_t t = 0; t < kTokens; ++t) expect_row(wrong, t, turned(right, t, t, length));
  }
}

}  // namespace
}  // namespace mainstem
