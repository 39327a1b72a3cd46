// The commands on a real model with windows, two rotary bases, norms around each sub-layer and
// K-quants: Gemma 3 270M as GGUF, compared with transformers (tests/generators/make_real.py). Of
// the bounds: logits reach 30, and an independent float64 forward differs by 2e-4 over 897 tokens;
// single entries of the stream grow to thousands, so it is held to 1e-4 of the vector's length.

#include <algorithm>
#include <cmath>

#include "cli/run_command.h"
#include "mainstem/safetensors.h"
#include "mainstem/tensor.h"

namespace mainstem::cli_test {
namespace {

constexpr double kLogitBound = 2e-3;
constexpr double kStreamBound = 1e-4;
constexpr double kRotaryBound = 1e-4;
constexpr double kPatternBound = 1e-5;

std::string gemma() { return real_model("gemma-3-270m-q4_k_m.gguf"); }
#define MAINSTEM_NEEDS_GEMMA() MAINSTEM_NEEDS(gemma(), "gemma-3-270m-q4_k_m.gguf")

const nlohmann::json& golden() {
  static const nlohmann::json document =
      nlohmann::json::parse(slurp(test_file("golden/real/gemma3.json")));
  return document;
}

std::vector<int64_t> ids_of(const nlohmann::json& list) { return list.get<std::vector<int64_t>>(); }

/// The values of a trace, by site.
class Traced {
 public:
  Traced(const nlohmann::json& ids, const std::vector<std::string>& options)
      : path_((scratch_ / "t.safetensors").string()) {
    std::vector<std::string> arguments{"trace", gemma(), "--tokens", joined(ids_of(ids)),
                                       "--out", path_};
    arguments.insert(arguments.end(), options.begin(), options.end());
    run_json(arguments);
  }
  std::vector<double> operator[](const std::string& site) const {
    return to_f64(SafetensorsFile::open(path_).view(site));
  }

 private:
  Scratch scratch_;
  std::string path_;
};

void expect_near(const std::vector<double>& got, const nlohmann::json& want, double bound) {
  ASSERT_GE(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i].get<double>(), bound) << i;
}

void expect_sample(const std::vector<double>& got, const nlohmann::json& want) {
  expect_near(got, want.at("first_8"), kStreamBound * want.at("l2").get<double>());
}

std::vector<int64_t> ten_largest(const std::vector<double>& logits) {
  std::vector<int64_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::partial_sort(order.begin(), order.begin() + 10, order.end(), [&](int64_t a, int64_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  order.resize(10);
  return order;
}

double log_sum_exp(const std::vector<double>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

TEST(Gemma3, InspectSaysBothKindsOfBlocks) {
  MAINSTEM_NEEDS_GEMMA();
  const nlohmann::json model = run_json({"inspect", gemma()});
  EXPECT_EQ(model.at("family"), "gemma3");
  EXPECT_EQ(model.at("parameters"), 268098176);
  EXPECT_EQ(model.at("spec").at("stack").at("layers"), 18);
}

TEST(Gemma3, LastPositionIsTransformers) {
  MAINSTEM_NEEDS_GEMMA();
  for (const auto& [name, prompt] : golden().at("prompts").items()) {
    SCOPED_TRACE(name);
    const Traced values(prompt.at("ids"), {"--sites", "embed,blocks.*.resid_post,final_norm,logits",
                                           "--positions", "last", "--compute", "f32"});
    const nlohmann::json& residual = prompt.at("residual");
    expect_sample(values["embed"], residual.at("embedding"));
    expect_sample(values["blocks.0.resid_post"], residual.at("after_block_00_first"));
    expect_sample(values["blocks.1.resid_post"], residual.at("after_block_01_second"));
    expect_sample(values["blocks.9.resid_post"], residual.at("after_block_09_middle"));
    expect_sample(values["blocks.17.resid_post"], residual.at("after_block_17_last"));
    expect_sample(values["final_norm"], residual.at("final_norm"));
    const std::vector<double> logits = values["logits"];
    const std::vector<int64_t> order = ten_largest(logits);
    EXPECT_EQ(order, ids_of(prompt.at("top10_ids")));
    std::vector<double> largest;
    for (int64_t id : order) largest.push_back(logits[static_cast<size_t>(id)]);
    expect_near(largest, prompt.at("top10_values"), kLogitBound);
    EXPECT_NEAR(log_sum_exp(logits), prompt.at("logsumexp").get<double>(), kLogitBound);
  }
}

TEST(Gemma3, FirstBlockIsTransformers) {
  MAINSTEM_NEEDS_GEMMA();
  const nlohmann::json& ids = golden().at("prompts").at("english").at("ids");
  const Traced values(ids, {"--sites", "blocks.0.*", "--compute", "f32"});
  const auto last_token = [&](const std::string& site) {
    const std::vector<double> all = values["blocks.0." + site];
    const size_t width = all.size() / ids.size();
    return std::vector<double>(all.end() - static_cast<std::ptrdiff_t>(width), all.end());
  };
  const nlohmann::json& layer = golden().at("layer0_english");
  expect_near(last_token("q_rot"), layer.at("q_rot_head0_last"), kRotaryBound);
  expect_near(last_token("k_rot"), layer.at("k_rot_head0_last"), kRotaryBound);
  for (const auto& [module, site] : std::vector<std::pair<std::string, std::string>>{
           {"input_layernorm", "attn_norm"},
           {"self_attn.q_proj", "q"},
           {"self_attn.k_proj", "k"},
           {"self_attn.v_proj", "v"},
           {"self_attn.o_proj", "attn_proj"},
           {"post_attention_layernorm", "attn_out"},
           {"pre_feedforward_layernorm", "mlp_norm"},
           {"mlp.gate_proj", "mlp_gate"},
           {"mlp.up_proj", "mlp_value"},
           {"mlp.down_proj", "mlp_proj"},
           {"post_feedforward_layernorm", "mlp_out"}}) {
    SCOPED_TRACE(site);
    expect_sample(last_token(site), layer.at("trace").at(module));
  }
  // [H, T, S]: the last row of head 0.
  const size_t tokens = ids.size();
  const std::vector<double> pattern = values["blocks.0.pattern"];
  const auto row = pattern.begin() + static_cast<std::ptrdiff_t>((tokens - 1) * tokens);
  expect_near({row, row + static_cast<std::ptrdiff_t>(tokens)}, layer.at("pattern_head0_last"),
              kPatternBound);
}

TEST(Gemma3, GreedyIdsInFloat32AreTransformers) {
  MAINSTEM_NEEDS_GEMMA();
  for (const auto& [name, prompt] : golden().at("prompts").items()) {
    const nlohmann::json got =
        run_json({"run", gemma(), "--tokens", joined(ids_of(prompt.at("ids"))), "-n", "32",
                  "--compute", "f32", "--ignore-eos"});
    EXPECT_EQ(got.at("ids"), prompt.at("greedy").at("ids")) << name;
  }
}

TEST(Gemma3, ScoreOverTheWindowIsTransformers) {
  MAINSTEM_NEEDS_GEMMA();
  const nlohmann::json& prompt = golden().at("prompts").at("window");
  const nlohmann::json got = run_json(
      {"score", gemma(), "--tokens", joined(ids_of(prompt.at("ids"))), "--compute", "f32"});
  EXPECT_EQ(got.at("tokens"), prompt.at("nll").at("tokens"));
  EXPECT_NEAR(got.at("nll").get<double>(), prompt.at("nll").at("mean").get<double>(), 1e-4);
}

// Activations rounded to 8 bits move single logits by whole units, and their mean square little.
TEST(Gemma3, FastComputeStaysNear) {
  MAINSTEM_NEEDS_GEMMA();
  const nlohmann::json& ids = golden().at("prompts").at("code").at("ids");
  const Traced exact(ids, {"--sites", "logits", "--compute", "f32"});
  const Traced fast(ids, {"--sites", "logits", "--compute", "fast"});
  const std::vector<double> want = exact["logits"];
  const std::vector<double> got = fast["logits"];
  ASSERT_EQ(got.size(), want.size());
  double sum = 0;
  for (size_t i = 0; i < want.size(); ++i) sum += (got[i] - want[i]) * (got[i] - want[i]);
  const double rms = std::sqrt(sum / static_cast<double>(want.size()));
  RecordProperty("rms", std::to_string(rms));
  EXPECT_LT(rms, 0.5);
  EXPECT_GT(rms, 0) << "fast did nothing of its own";
}

TEST(Gemma3, CheckPasses) {
  MAINSTEM_NEEDS_GEMMA();
  const Outcome outcome = run({"check", gemma(), "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace mainstem::cli_test
