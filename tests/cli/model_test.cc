// The commands on a real model: SmolLM2-135M-Instruct as GGUF.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "cli/run_command.h"
#include "mainstem/npz.h"
#include "mainstem/safetensors.h"
#include "support/compare.h"

namespace mainstem::cli_test {
namespace {

const nlohmann::json& golden() {
  static const nlohmann::json document =
      nlohmann::json::parse(slurp(test_file("golden/real/smollm2.json")));
  return document;
}

std::vector<int64_t> ids_of(const nlohmann::json& list) { return list.get<std::vector<int64_t>>(); }

TEST(SmolLm2, InspectCounts) {
  MAINSTEM_NEEDS_SMOLLM2();
  const nlohmann::json model = run_json({"inspect", smollm2()});
  EXPECT_EQ(model.at("family"), "llama");
  EXPECT_EQ(model.at("parameters"), 134515008);
  // Without a cache: the weights of every product once, the table as head, two products of one key.
  EXPECT_EQ(model.at("flops_per_token"), 2 * (134515008 - 61 * 576 + int64_t{30} * 2 * 9 * 64));
  EXPECT_EQ(model.at("kv_bytes_per_token"), 30 * 2 * 3 * 64 * 4);
  EXPECT_EQ(model.at("spec").at("stack").at("layers"), 30);
  EXPECT_EQ(model.at("sites").back().at("site"), "logits");
}

TEST(SmolLm2, TokenizeGivesIdsAndPieces) {
  MAINSTEM_NEEDS_SMOLLM2();
  for (const auto& [name, prompt] : golden().at("prompts").items()) {
    const nlohmann::json got =
        run_json({"tokenize", smollm2(), "-p", prompt.at("text").get<std::string>()});
    EXPECT_EQ(got.at("ids"), prompt.at("ids")) << name;
    EXPECT_EQ(got.at("pieces").size(), got.at("ids").size());
  }
}

TEST(SmolLm2, GreedyIdsInFloat32AreTransformers) {
  MAINSTEM_NEEDS_SMOLLM2();
  for (const auto& [name, prompt] : golden().at("prompts").items()) {
    const nlohmann::json got =
        run_json({"run", smollm2(), "-p", prompt.at("text").get<std::string>(), "-n", "32",
                  "--compute", "f32", "--ignore-eos"});
    EXPECT_EQ(got.at("prompt_ids"), prompt.at("ids")) << name;
    EXPECT_EQ(got.at("ids"), prompt.at("greedy").at("ids")) << name;
    EXPECT_EQ(got.at("text"), prompt.at("greedy").at("text")) << name;
    EXPECT_EQ(got.at("stop"), "length");
    EXPECT_GT(got.at("prefill_tok_s"), 0);
    EXPECT_GT(got.at("decode_tok_s"), 0);
  }
}

TEST(SmolLm2, AnEndTokenStopsAndIsNotPrinted) {
  MAINSTEM_NEEDS_SMOLLM2();
  const nlohmann::json& chat = golden().at("prompts").at("chat");
  const std::vector<std::string> arguments{
      "run", smollm2(), "--tokens", joined(ids_of(chat.at("ids"))), "--compute", "f32"};
  const nlohmann::json got = run_json(arguments);
  std::vector<int64_t> want = ids_of(chat.at("greedy").at("ids"));
  want.resize(chat.at("greedy").at("first_eos").get<size_t>());
  EXPECT_EQ(got.at("ids"), want);
  EXPECT_EQ(got.at("stop"), "eos");
  EXPECT_EQ(got.at("text"), "The capital of France is Paris.");

  const Outcome text = run(arguments);
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.out, "The capital of France is Paris.\n");
  EXPECT_NE(text.err.find("tok/s"), std::string::npos);
}

TEST(SmolLm2, ChatPutsTheTemplateAroundTheText) {
  MAINSTEM_NEEDS_SMOLLM2();
  const nlohmann::json& chat = golden().at("prompts").at("chat");
  const std::string question = "What is the capital of France? Answer in one sentence.";
  const nlohmann::json got =
      run_json({"run", smollm2(), "--chat", "-p", question, "--compute", "f32"});
  EXPECT_EQ(got.at("prompt_ids"), chat.at("ids"));
  EXPECT_EQ(got.at("text"), "The capital of France is Paris.");
  EXPECT_EQ(got.at("stop"), "eos");
  EXPECT_EQ(run_json({"tokenize", smollm2(), "--chat", "-p", question}).at("ids"), chat.at("ids"));
  // A system's turn takes the place of the template's own.
  const nlohmann::json system =
      run_json({"tokenize", smollm2(), "--chat", "--system", "Be brief.", "-p", "Hi"});
  EXPECT_EQ(system.at("ids"),
            run_json({"tokenize", smollm2(), "-p",
                      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                      "<|im_start|>assistant\n"})
                .at("ids"));
}

TEST(SmolLm2, SeedsMakeSamplingRepeatable) {
  MAINSTEM_NEEDS_SMOLLM2();
  const auto sample = [](const char* seed) {
    return run_json({"run", smollm2(), "-p", "Once upon a time", "-n", "12", "--temperature", "1",
                     "--top-k", "50", "--seed", seed})
        .at("ids");
  };
  EXPECT_EQ(sample("1"), sample("1"));
  EXPECT_NE(sample("1"), sample("2"));
}

TEST(SmolLm2, TracedValuesAreTransformers) {
  MAINSTEM_NEEDS_SMOLLM2();
  const Scratch scratch;
  const std::string file = (scratch / "t.safetensors").string();
  const std::vector<std::pair<std::string, std::string>> stream = {
      {"after_block_00_first", "blocks.0.resid_post"},
      {"after_block_01_second", "blocks.1.resid_post"},
      {"after_block_15_middle", "blocks.15.resid_post"},
      {"after_block_29_last", "blocks.29.resid_post"},
      {"final_norm", "final_norm"}};
  for (const auto& [name, prompt] : golden().at("prompts").items()) {
    SCOPED_TRACE(name);
    run_json({"trace", smollm2(), "--tokens", joined(ids_of(prompt.at("ids"))), "--sites",
              "blocks.*.resid_post,final_norm,logits", "--positions", "last", "--out", file});
    const auto values = SafetensorsFile::open(file);
    EXPECT_EQ(values.find("tokens")->shape[1], static_cast<int64_t>(prompt.at("ids").size()));
    for (const auto& [key, site] : stream) {
      const nlohmann::json& want = prompt.at("residual").at(key);
      const std::vector<double> got = to_f64(values.view(site));
      EXPECT_EQ(got.size(), 576U) << site;
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_NEAR(got[i], want.at("first_8")[i].get<double>(),
                    1e-4 * want.at("l2").get<double>());
      }
    }
    const std::vector<float> logits = to_f32(values.view("logits"));
    std::vector<int64_t> order(logits.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::partial_sort(order.begin(), order.begin() + 10, order.end(), [&](int64_t a, int64_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    order.resize(10);
    EXPECT_EQ(order, ids_of(prompt.at("top10_ids")));
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_NEAR(logits[static_cast<size_t>(order[i])], prompt.at("top10_values")[i].get<double>(),
                  2e-3);
    }
  }
}

TEST(SmolLm2, FirstBlockIsTransformers) {
  MAINSTEM_NEEDS_SMOLLM2();
  const Scratch scratch;
  const std::string file = (scratch / "t.npz").string();
  const nlohmann::json& prompt = golden().at("prompts").at("english");
  run_json({"trace", smollm2(), "--tokens", joined(ids_of(prompt.at("ids"))), "--sites",
            "blocks.0.*", "--out", file});
  const auto values = NpzFile::open(file);
  const auto last_token = [&](const std::string& site) {
    const std::vector<double> all = to_f64(values.read(site).view());
    const size_t width = all.size() / prompt.at("ids").size();
    return std::vector<double>(all.end() - static_cast<std::ptrdiff_t>(width), all.end());
  };
  const nlohmann::json& layer = golden().at("layer0_english");
  const auto expect_near = [](const std::vector<double>& got, const nlohmann::json& want,
                              double bound) {
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i].get<double>(), bound) << i;
  };
  expect_near(last_token("blocks.0.q_rot"), layer.at("q_rot_head0_last"), 1e-4);
  expect_near(last_token("blocks.0.k_rot"), layer.at("k_rot_head0_last"), 1e-4);
  for (const auto& [module, site] :
       std::vector<std::pair<std::string, std::string>>{{"input_layernorm", "attn_norm"},
                                                        {"self_attn.q_proj", "q"},
                                                        {"self_attn.k_proj", "k"},
                                                        {"self_attn.v_proj", "v"},
                                                        {"self_attn.o_proj", "attn_proj"},
                                                        {"post_attention_layernorm", "mlp_norm"},
                                                        {"mlp.gate_proj", "mlp_gate"},
                                                        {"mlp.up_proj", "mlp_value"},
                                                        {"mlp.down_proj", "mlp_proj"}}) {
    SCOPED_TRACE(site);
    const nlohmann::json& want = layer.at("trace").at(module);
    expect_near(last_token("blocks.0." + site), want.at("first_8"),
                1e-4 * want.at("l2").get<double>());
  }
  const Tensor pattern = values.read("blocks.0.pattern");
  const size_t tokens = prompt.at("ids").size();
  const std::vector<double> all = to_f64(pattern.view());
  const std::vector<double> row(all.begin() + static_cast<std::ptrdiff_t>((tokens - 1) * tokens),
                                all.begin() + static_cast<std::ptrdiff_t>(tokens * tokens));
  expect_near(row, layer.at("pattern_head0_last"), 1e-5);
}

TEST(SmolLm2, PositionsCutQueriesOnly) {
  MAINSTEM_NEEDS_SMOLLM2();
  const nlohmann::json all = run_json({"trace", smollm2(), "--tokens", "504,3575,282,4649",
                                       "--sites", "blocks.0.*", "--positions", "1:3"});
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const nlohmann::json& step : all.at("steps")) {
    shapes[step.at("site")] = step.at("shape").get<std::vector<int64_t>>();
  }
  EXPECT_EQ(shapes["blocks.0.q_rot"], (std::vector<int64_t>{1, 2, 9, 64}));
  EXPECT_EQ(shapes["blocks.0.scores"], (std::vector<int64_t>{1, 9, 2, 4}));
  EXPECT_EQ(shapes["blocks.0.k_rot"], (std::vector<int64_t>{1, 4, 3, 64}));
  EXPECT_EQ(shapes["blocks.0.v"], (std::vector<int64_t>{1, 4, 3, 64}));
  EXPECT_EQ(shapes.count("blocks.0.attn_out"), 0U) << "second names are stored once";
  EXPECT_EQ(shapes.count("blocks.0.resid_post"), 1U);
}

TEST(SmolLm2, NamesOfOtherWorlds) {
  MAINSTEM_NEEDS_SMOLLM2();
  const auto names = [](const char* world) {
    std::vector<std::string> result;
    const nlohmann::json all = run_json({"trace", smollm2(), "--tokens", "504,3575", "--sites",
                                         "blocks.1.*,logits", "--names", world});
    for (const nlohmann::json& step : all.at("steps")) result.push_back(step.at("site"));
    return result;
  };
  EXPECT_EQ(names("hf"), (std::vector<std::string>{"model.layers.0",
                                                   "model.layers.1.input_layernorm",
                                                   "model.layers.1.self_attn.q_proj",
                                                   "model.layers.1.self_attn.k_proj",
                                                   "model.layers.1.self_attn.v_proj",
                                                   "blocks.1.q_rot",
                                                   "blocks.1.k_rot",
                                                   "blocks.1.scores",
                                                   "blocks.1.pattern",
                                                   "model.layers.1.self_attn.o_proj.input",
                                                   "model.layers.1.self_attn.o_proj",
                                                   "model.layers.1.post_attention_layernorm.input",
                                                   "model.layers.1.post_attention_layernorm",
                                                   "model.layers.1.mlp.gate_proj",
                                                   "model.layers.1.mlp.up_proj",
                                                   "model.layers.1.mlp.act_fn",
                                                   "model.layers.1.mlp.down_proj.input",
                                                   "model.layers.1.mlp.down_proj",
                                                   "model.layers.1",
                                                   "lm_head"}));
  EXPECT_EQ(names("tl"), (std::vector<std::string>{"blocks.1.hook_resid_pre",
                                                   "blocks.1.attn_norm",
                                                   "blocks.1.attn.hook_q",
                                                   "blocks.1.attn.hook_k",
                                                   "blocks.1.attn.hook_v",
                                                   "blocks.1.attn.hook_rot_q",
                                                   "blocks.1.attn.hook_rot_k",
                                                   "blocks.1.attn.hook_attn_scores",
                                                   "blocks.1.attn.hook_pattern",
                                                   "blocks.1.attn.hook_z",
                                                   "blocks.1.hook_attn_out",
                                                   "blocks.1.hook_resid_mid",
                                                   "blocks.1.mlp_norm",
                                                   "blocks.1.mlp.hook_pre",
                                                   "blocks.1.mlp.hook_pre_linear",
                                                   "blocks.1.mlp_act",
                                                   "blocks.1.mlp.hook_post",
                                                   "blocks.1.hook_mlp_out",
                                                   "blocks.1.hook_resid_post",
                                                   "logits"}));
  EXPECT_EQ(names("ggml"), (std::vector<std::string>{
                               "l_out-0",       "attn_norm-1", "Qcur-1#MUL_MAT", "Kcur-1#MUL_MAT",
                               "Vcur-1",        "Qcur-1#ROPE", "Kcur-1#ROPE",    "blocks.1.scores",
                               "kq_soft_max-1", "kqv_out-1",   "attn_out-1",     "ffn_inp-1",
                               "ffn_norm-1",    "ffn_gate-1",  "ffn_up-1",       "blocks.1.mlp_act",
                               "ffn_swiglu-1",  "ffn_out-1",   "l_out-1",        "result_output"}));
}

TEST(SmolLm2, RefusalsSayWhatAndHowMany) {
  MAINSTEM_NEEDS_SMOLLM2();
  const std::string model = smollm2();
  EXPECT_TRUE(fails(run({"run", model, "-p", ""}), 2, "empty"));
  EXPECT_TRUE(fails(run({"trace", model, "--tokens", "49152"}), 2, "49151"));
  EXPECT_TRUE(fails(run({"trace", model, "--tokens", "-1"}), 2, "-1"));
  EXPECT_TRUE(
      fails(run({"trace", model, "--tokens", "1", "--sites", "blocks.99.*"}), 2, "blocks.99.*"));
  EXPECT_TRUE(
      fails(run({"trace", model, "--tokens", "1,2", "--positions", "1:9"}), 2, "--positions"));
  EXPECT_TRUE(fails(run({"trace", model, "--tokens", "1", "--sites", "*.k_cache"}), 2, "cache"));
  const Scratch scratch;
  const std::string many = (scratch / "ids").string();
  {
    std::ofstream file(many);
    for (int i = 0; i < 8193; ++i) file << "5 ";
  }
  const Outcome outcome = run({"run", model, "--tokens", "@" + many});
  EXPECT_TRUE(fails(outcome, 2, "8192"));
  EXPECT_TRUE(fails(outcome, 2, "8193"));
}

TEST(SmolLm2, CheckPassesAndCatchesAMistake) {
  MAINSTEM_NEEDS_SMOLLM2();
  const Outcome right = run({"check", smollm2(), "--json"});
  EXPECT_EQ(right.code, 0) << right.out << right.err;
  const Outcome wrong = run({"check", smollm2(), "--break", "residual.missing", "--json"});
  EXPECT_EQ(wrong.code, 1);
  std::set<std::string> ids, failed;
  const nlohmann::json document = wrong.json();
  for (const nlohmann::json& each : document.at("checks")) {
    EXPECT_TRUE(ids.insert(each.at("id")).second) << "twice: " << each.at("id");
    if (each.at("status") == "failed") failed.insert(each.at("id"));
  }
  EXPECT_TRUE(failed.contains("residual"));
  EXPECT_FALSE(failed.contains("rotary"));
}

std::string text_file(const Scratch& scratch, const std::string& text) {
  const std::string path = (scratch / "text").string();
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(SmolLm2, ScoreIsTransformers) {
  MAINSTEM_NEEDS_SMOLLM2();
  const Scratch scratch;
  const nlohmann::json& prompt = golden().at("prompts").at("long");
  const double want = prompt.at("nll").at("mean").get<double>();
  const std::string file = text_file(scratch, prompt.at("text"));
  const nlohmann::json got = run_json({"score", smollm2(), "--file", file});
  EXPECT_EQ(got.at("tokens"), prompt.at("nll").at("tokens"));
  EXPECT_NEAR(got.at("nll").get<double>(), want, 1e-5);
  EXPECT_NEAR(got.at("perplexity").get<double>(), std::exp(want), 1e-3);
  EXPECT_EQ(got.at("context"), 8192);
  EXPECT_EQ(got.at("windows"), 1);
  const std::string ids = joined(ids_of(prompt.at("ids")));
  EXPECT_EQ(run_json({"score", smollm2(), "--tokens", ids}), got);
  // The files name no begin token, so each of the windows of 100, 100, 100 and 5 loses one.
  const nlohmann::json windows = run_json({"score", smollm2(), "--file", file, "--context", "100"});
  EXPECT_EQ(windows.at("tokens"), 305 - 4);
  EXPECT_EQ(windows.at("windows"), 4);
  EXPECT_GT(windows.at("nll").get<double>(), want);
}

TEST(SmolLm2, ScoreSaysWhatIsWrongWithATextFile) {
  MAINSTEM_NEEDS_SMOLLM2();
  const Scratch scratch;
  const auto scored = [&](const std::string& text) {
    return run({"score", smollm2(), "--file", text_file(scratch, text)});
  };
  EXPECT_TRUE(fails(scored(""), 3, "empty"));
  EXPECT_TRUE(fails(scored("Hello"), 2, "two tokens"));
  EXPECT_TRUE(fails(scored("caf\xE9 au lait"), 3, "0xE9 at byte 3"));
  EXPECT_TRUE(fails(run({"score", smollm2(), "--file", "/no/such/text"}), 3, "/no/such/text"));
}

TEST(SmolLm2, InterruptEndsAScoreCleanly) {
  MAINSTEM_NEEDS_SMOLLM2();
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "one two three ";
  const pid_t pid = start({"score", smollm2(), "--file", text_file(scratch, text)}, scratch);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  kill(pid, SIGINT);
  const Outcome outcome = finish(pid, scratch);
  EXPECT_EQ(outcome.code, 130);
  EXPECT_EQ(outcome.out + outcome.err, "");
}

TEST(SmolLm2, InterruptEndsCleanly) {
  MAINSTEM_NEEDS_SMOLLM2();
  const Scratch scratch;
  const pid_t pid =
      start({"run", smollm2(), "-p", "Count:", "-n", "100000", "--ignore-eos"}, scratch);
  while (slurp(scratch / "out").size() < 20) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(pid, SIGINT);
  const Outcome outcome = finish(pid, scratch);
  EXPECT_EQ(outcome.code, 130);
  EXPECT_TRUE(outcome.out.ends_with("\n"));
  EXPECT_EQ(outcome.err, "");
}

TEST(SmolLm2, InterruptEndsACheckCleanly) {
  MAINSTEM_NEEDS_SMOLLM2();
  const Scratch scratch;
  const pid_t pid = start({"check", smollm2()}, scratch);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  kill(pid, SIGINT);
  const Outcome outcome = finish(pid, scratch);
  EXPECT_EQ(outcome.code, 130);
  EXPECT_EQ(outcome.out + outcome.err, "");
}

TEST(SmolLm2, AFailedTraceLeavesNoFile) {
  MAINSTEM_NEEDS_SMOLLM2();
  const Scratch scratch;
  const std::string file = (scratch / "missing" / "t.safetensors").string();
  EXPECT_TRUE(fails(run({"trace", smollm2(), "--tokens", "1", "--out", file}), 3, file));
}

}  // namespace
}  // namespace mainstem::cli_test
