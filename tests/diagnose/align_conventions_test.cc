// Ways to write a value that are no mistakes are undone; mistakes that look like them are not.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "diagnose/align.h"
#include "diagnose/align_conventions.h"
#include "diagnose/dump_builder.h"

namespace mainstem::testing {
namespace {

struct Values {
  std::map<std::string, Shape> shape;
  std::map<std::string, std::vector<double>> data;
};
using Change = std::function<void(Values&)>;
/// Changes a value where it is made, so that all behind it is made of the changed one.
using Mistake = std::function<void(const SiteId&, const Shape&, std::span<double>)>;

class AlignConventions : public ::testing::Test {
 protected:
  void load(const std::string& family) { golden_.emplace(golden_family(family)); }
  const Program& program() const { return golden_->model.program(); }

  /// Every value under its earliest name.
  Values run(const Mistake& mistake = {}) const {
    Session session(golden_->model.bound(),
                    {.compute = Compute::kF64, .threads = 1, .sites = all_sites(program())});
    SequenceInput input = golden_->input;
    input.sequence = session.add_sequence();
    Values values;
    session.forward_all({&input, 1}, {}, [&](const TraceEvent& event, void* data) {
      const ValueId value = *program().find_value(event.site);
      if (first_site(program(), value) != event.site) return;
      const std::span<double> numbers(static_cast<double*>(data),
                                      static_cast<size_t>(event.value.count()));
      if (mistake) mistake(event.site, event.value.shape(), numbers);
      values.shape[to_string(event.site)] = event.value.shape();
      values.data[to_string(event.site)] = {numbers.begin(), numbers.end()};
    });
    return values;
  }

  Aligned align_with(const Values& values, DType dtype = DType::kF32,
                     const std::map<std::string, std::string>& names = {}) const {
    DumpBuilder dump;
    for (const auto& [site, data] : values.data) {
      const auto name = names.find(site);
      if (name != names.end() && name->second.empty()) continue;
      dump.add(name == names.end() ? site : name->second, values.shape.at(site), data, dtype);
    }
    dump.add_ids("tokens", {std::ssize(golden_->input.tokens)}, golden_->input.tokens);
    return align(golden_->model, dump.build(), {.threads = 1});
  }

  /// The largest difference of all aligned values from these, relative to the value.
  static double worst(const Aligned& aligned, const Values& want, bool scores_too = false) {
    double worst = 0;
    for (const AlignedValue& value : aligned.values) {
      const std::vector<double>& right = want.data.at(to_string(value.site));
      if (!scores_too && value.site.site == Site::kScores) continue;
      double off = 0, size = 0;
      for (size_t i = 0; i < right.size(); ++i) {
        off += (value.data[i] - right[i]) * (value.data[i] - right[i]);
        size += right[i] * right[i];
      }
      worst = std::max(worst, std::sqrt(off / size));
    }
    return worst;
  }

  static bool has_note(const Aligned& aligned, const std::string& text) {
    return std::any_of(aligned.notes.begin(), aligned.notes.end(), [&](const std::string& note) {
      return note.find(text) != std::string::npos;
    });
  }

  std::optional<GoldenModel> golden_;
};

constexpr double kRoundOff = 1e-5;

bool ends_with(const std::string& text, const char* end) { return text.ends_with(end); }

/// Applies to every value whose site ends so.
void change_all(Values& values, const char* end,
                const std::function<void(std::vector<double>&)>& f) {
  int changed = 0;
  for (auto& [site, data] : values.data) {
    if (!ends_with(site, end)) continue;
    f(data);
    ++changed;
  }
  ASSERT_GT(changed, 0) << end;
}

TEST_F(AlignConventions, ProductsWithoutScaleAreScoresWhereThePatternSaysSo) {
  load("llama");
  const Values right = run();
  const double scale = program().spec.stack.blocks[0].attention.score_scale;
  Values raw = right;
  change_all(raw, ".scores", [&](auto& data) {
    for (double& x : data) x /= scale;
  });
  const Aligned aligned = align_with(raw);
  EXPECT_LT(worst(aligned, right, true), kRoundOff);
  EXPECT_TRUE(has_note(aligned, "blocks.*.scores: q·k as it is"));
  EXPECT_EQ(aligned.notes.size(), 1U);

  const Values mistaken = run([&](const SiteId& site, const Shape&, std::span<double> data) {
    if (site.site != Site::kScores) return;
    for (double& x : data) x /= scale;
  });
  const Aligned wrong = align_with(mistaken);
  EXPECT_LT(worst(wrong, mistaken), kRoundOff);
  EXPECT_TRUE(wrong.notes.empty());
  const auto scores = std::find_if(wrong.values.begin(), wrong.values.end(),
                                   [](const auto& v) { return v.site.site == Site::kScores; });
  EXPECT_NEAR(scores->data[0], mistaken.data.at("blocks.0.scores")[0], 1e-4);
}

TEST_F(AlignConventions, ScoresWithAMaskInThem) {
  load("llama");
  const Values right = run();
  Values masked = right;
  for (auto& [site, data] : masked.data) {
    if (!ends_with(site, ".scores")) continue;
    const Shape& shape = masked.shape.at(site);
    for (size_t i = 0; i < data.size(); ++i) {
      const auto flat = static_cast<int64_t>(i);
      if (flat % shape[3] > flat / shape[3] % shape[2]) data[i] = -INFINITY;
    }
  }
  const Aligned aligned = align_with(masked);
  EXPECT_LT(worst(aligned, right, true), kRoundOff);
  EXPECT_TRUE(aligned.notes.empty());
}

/// Channel 2j + s of each head becomes what s·E/2 + j was.
void pair_rows(const Shape& shape, std::span<double> data) {
  const auto width = static_cast<size_t>(shape.back());
  const std::vector<double> before(data.begin(), data.end());
  for (size_t head = 0; head < data.size(); head += width) {
    for (size_t c = 0; c < width; ++c) {
      data[head + c] = before[head + c % 2 * (width / 2) + c / 2];
    }
  }
}

TEST_F(AlignConventions, PermutedQueriesAndKeys) {
  load("llama");
  const Values right = run();
  Values paired = right;
  for (auto& [site, data] : paired.data) {
    for (const char* end : {".q", ".k", ".q_rot", ".k_rot"}) {
      if (ends_with(site, end)) pair_rows(paired.shape.at(site), data);
    }
  }
  const Aligned aligned = align_with(paired);
  EXPECT_LT(worst(aligned, right), kRoundOff);
  EXPECT_TRUE(has_note(aligned, "blocks.*.q_rot: channels of each head in pairs"));

  // Rows that were never put back, turned in halves: scores and all behind them are wrong.
  const Values mistaken = run([](const SiteId& site, const Shape& shape, std::span<double> data) {
    if (site.site == Site::kQ || site.site == Site::kK) pair_rows(shape, data);
  });
  const Aligned wrong = align_with(mistaken);
  EXPECT_LT(worst(wrong, mistaken, false), kRoundOff);
  EXPECT_TRUE(wrong.notes.empty());

  // Keys alone.
  const Values keys = run([](const SiteId& site, const Shape& shape, std::span<double> data) {
    if (site.site == Site::kK) pair_rows(shape, data);
  });
  EXPECT_LT(worst(align_with(keys), keys), kRoundOff);
}

TEST_F(AlignConventions, ThePairingOfRotationsStaysAMistake) {
  load("llama");
  Program edited = program();
  for (Step& step : edited.steps) {
    if (step.op != Op::kRotary) continue;
    std::get<RotaryParams>(step.params).rotary.pairing = RotaryPairing::kInterleaved;
  }
  const auto bound = std::make_shared<BoundProgram>(edited, golden_->model.weights());
  Values mistaken;
  for (const TracedValue& traced :
       trace(bound, {&golden_->input, 1}, all_sites(edited), Compute::kF64, 1)) {
    if (traced.site.site == Site::kTokens) continue;
    if (first_site(edited, *edited.find_value(traced.site)) != traced.site) continue;
    mistaken.shape[to_string(traced.site)] = traced.value.shape();
    mistaken.data[to_string(traced.site)] = to_f64(traced.value.view());
  }
  const Aligned wrong = align_with(mistaken);
  EXPECT_LT(worst(wrong, mistaken), kRoundOff);
  EXPECT_TRUE(wrong.notes.empty());
}

TEST_F(AlignConventions, NormsFoldedIntoTheNextProduct) {
  load("llama");
  const Values right = run();
  const auto weight = [&](const std::string& name) {
    return to_f64(golden_->model.weights().at(name).tensor);
  };
  const auto fold = [&](const std::string& site, std::span<double> data) {
    const std::vector<double> w = weight(site + ".weight");
    for (size_t i = 0; i < data.size(); ++i) data[i] /= w[i % w.size()];
  };
  Values folded = right;
  for (const char* site : {"blocks.0.attn_norm", "blocks.1.mlp_norm"}) {
    fold(site, folded.data.at(site));
  }
  const Aligned aligned = align_with(folded);
  EXPECT_LT(worst(aligned, right), kRoundOff);
  EXPECT_EQ(aligned.notes.size(), 2U);
  EXPECT_TRUE(has_note(aligned, "blocks.0.attn_norm: norm outputs without their weight"));

  const Values mistaken = run([&](const SiteId& site, const Shape&, std::span<double> data) {
    if (site == SiteId{Site::kAttnNorm, 0}) fold("blocks.0.attn_norm", data);
  });
  const Aligned wrong = align_with(mistaken);
  EXPECT_LT(worst(wrong, mistaken), kRoundOff);
  EXPECT_TRUE(wrong.notes.empty());
}

TEST_F(AlignConventions, TransformerLensCompatibility) {
  load("gpt2");
  const Values right = run();
  Values folded = right;
  const auto width = static_cast<size_t>(program().spec.stack.width);
  const auto centre = [&](std::vector<double>& data) {
    for (size_t row = 0; row < data.size(); row += width) {
      double mean = 0;
      for (size_t i = 0; i < width; ++i) mean += data[row + i] / static_cast<double>(width);
      for (size_t i = 0; i < width; ++i) data[row + i] -= mean;
    }
  };
  for (const char* end : {"token_embed", "pos_embed", "embed", ".attn_proj", ".resid_mid",
                          ".mlp_proj", ".resid_post"}) {
    for (auto& [site, data] : folded.data) {
      if (site == end || (end[0] == '.' && ends_with(site, end))) centre(data);
    }
  }
  const auto without_bias = [&](std::vector<double>& data, const std::string& layer) {
    const WeightSource& source = golden_->model.weights().at("blocks." + layer + ".v.bias");
    const std::vector<double> all = to_f64(source.tensor);
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] -= all[static_cast<size_t>(source.row_order[i % source.row_order.size()])];
    }
  };
  for (const char* layer : {"0", "1"}) {
    const std::string block = std::string("blocks.") + layer;
    without_bias(folded.data.at(block + ".v"), layer);
    without_bias(folded.data.at(block + ".attn_mix"), layer);
  }
  const auto vocabulary = static_cast<size_t>(program().spec.vocab_size);
  std::vector<double>& logits = folded.data.at("head");
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] += 3 + static_cast<double>(i / vocabulary);
  }
  const Aligned aligned = align_with(folded);
  EXPECT_EQ(aligned.values.back().site.site, Site::kHead);
  EXPECT_TRUE(aligned.values.back().up_to_row_constant);
  Aligned rest = aligned;
  rest.values.pop_back();
  EXPECT_LT(worst(rest, right), kRoundOff);
  EXPECT_TRUE(has_note(aligned, "blocks.*.resid_post: each row less its mean"));
  EXPECT_TRUE(has_note(aligned, "blocks.*.v: without the bias of v"));
  EXPECT_TRUE(has_note(aligned, "head: equal but for one constant in each row"));

  // v's bias forgotten: the mixture lacks it too, but nothing makes up for it.
  const Values mistaken = run([&](const SiteId& site, const Shape&, std::span<double> data) {
    if (site.site != Site::kV) return;
    std::vector<double> changed(data.begin(), data.end());
    without_bias(changed, std::to_string(site.layer));
    std::copy(changed.begin(), changed.end(), data.begin());
  });
  const Aligned wrong = align_with(mistaken);
  EXPECT_LT(worst(wrong, mistaken), kRoundOff);
  EXPECT_TRUE(wrong.notes.empty());
}

TEST_F(AlignConventions, ScaledEmbeddings) {
  load("gemma2");
  const Values right = run();
  const double scale = program().spec.stack.embed_scale;
  Values scaled = right;
  for (double& x : scaled.data.at("token_embed")) x *= scale;
  const Aligned aligned = align_with(scaled);
  EXPECT_LT(worst(aligned, right), kRoundOff);
  EXPECT_TRUE(has_note(aligned, "token_embed: token rows times the embedding's scale"));

  // Not scaled at all, which RMS norms nearly hide.
  const Values mistaken = run([&](const SiteId& site, const Shape&, std::span<double> data) {
    if (site.site != Site::kEmbed) return;
    for (double& x : data) x /= scale;
  });
  const Aligned wrong = align_with(mistaken);
  EXPECT_LT(worst(wrong, mistaken), kRoundOff);
  EXPECT_TRUE(wrong.notes.empty());

  // Older versions of Gemma's modules scale behind the embedding, newer ones in it.
  for (const bool older : {false, true}) {
    const Aligned module = align_with(right, DType::kF32,
                                      {{older ? "token_embed" : "embed", "model.embed_tokens"},
                                       {older ? "embed" : "token_embed", ""}});
    EXPECT_EQ(to_string(module.values.front().site), older ? "token_embed" : "embed");
    EXPECT_LT(worst(module, right), kRoundOff);
  }
}

TEST_F(AlignConventions, ScaledQueries) {
  load("llama");
  const Values right = run();
  const double scale = program().spec.stack.blocks[0].attention.score_scale;
  Values scaled = right;
  change_all(scaled, ".q_rot", [&](auto& data) {
    for (double& x : data) x *= scale;
  });
  EXPECT_LT(worst(align_with(scaled), right), kRoundOff);
  const Values mistaken = run([&](const SiteId& site, const Shape&, std::span<double> data) {
    if (site.site != Site::kQRot) return;
    for (double& x : data) x *= scale;
  });
  EXPECT_LT(worst(align_with(mistaken), mistaken), kRoundOff);
}

TEST_F(AlignConventions, TheLastHiddenStateBeforeOrAfterTheFinalNorm) {
  load("llama");
  const Values right = run();
  const std::string last = "blocks.1.resid_post";
  const Aligned after =
      align_with(right, DType::kF32, {{"final_norm", "hidden_states.2"}, {last, ""}});
  const Aligned before =
      align_with(right, DType::kF32, {{last, "hidden_states.2"}, {"final_norm", ""}});
  EXPECT_LT(worst(after, right), kRoundOff);
  EXPECT_LT(worst(before, right), kRoundOff);
  const auto named = [](const Aligned& aligned, const std::string& name) {
    for (const AlignedValue& value : aligned.values) {
      if (value.name == name) return to_string(value.site);
    }
    return std::string("none");
  };
  EXPECT_EQ(named(after, "hidden_states.2"), "final_norm");
  EXPECT_EQ(named(before, "hidden_states.2"), last);
  // A wrong one is what the documentation of the list says.
  Values wrong = right;
  for (double& x : wrong.data.at("final_norm")) x += 1;
  const Aligned mistaken =
      align_with(wrong, DType::kF32, {{"final_norm", "hidden_states.2"}, {last, ""}});
  EXPECT_EQ(named(mistaken, "hidden_states.2"), "final_norm");
  EXPECT_LT(worst(mistaken, wrong), kRoundOff);
}

TEST_F(AlignConventions, SubLayersThatReturnTheStream) {
  load("llama");
  const Values right = run();
  Values added = right;
  added.data.at("blocks.0.attn_proj") = right.data.at("blocks.0.resid_mid");
  std::map<std::string, std::string> names = {
      {"blocks.0.attn_proj", "model.layers.0.self_attn.output.0"}, {"blocks.0.resid_mid", ""}};
  const Aligned aligned = align_with(added, DType::kF32, names);
  EXPECT_LT(worst(aligned, right), kRoundOff);
  // With the stream beside it, the doubled stream is a mistake of the module.
  names.erase("blocks.0.resid_mid");
  Values doubled = added;
  for (size_t i = 0; i < doubled.data.at("blocks.0.resid_mid").size(); ++i) {
    doubled.data.at("blocks.0.resid_mid")[i] += right.data.at("token_embed")[i];
  }
  const Aligned wrong = align_with(doubled, DType::kF32, names);
  EXPECT_LT(worst(wrong, doubled), kRoundOff);
}

TEST_F(AlignConventions, HooksOfScoresThatHoldThePattern) {
  load("gptj");
  const Values right = run();
  const std::string hook = ".attn.hook_attn_scores";
  const Aligned aligned = align_with(right, DType::kF32,
                                     {{"blocks.0.pattern", "blocks.0" + hook},
                                      {"blocks.0.scores", ""},
                                      {"blocks.1.pattern", "blocks.1" + hook},
                                      {"blocks.1.scores", ""}});
  int patterns = 0;
  for (const AlignedValue& value : aligned.values) patterns += value.site.site == Site::kPattern;
  EXPECT_EQ(patterns, 2);
  EXPECT_LT(worst(aligned, right), kRoundOff);
}

}  // namespace
}  // namespace mainstem::testing
