// A tiny model folder without a tokenizer: everything works with --tokens.

#include <cmath>
#include <limits>
#include <map>

#include "cli/run_command.h"
#include "mainstem/npz.h"
#include "mainstem/rng.h"
#include "mainstem/safetensors.h"

namespace mainstem::cli_test {
namespace {

constexpr int64_t kWidth = 16, kHidden = 24, kVocab = 32, kHeads = 4, kKvHeads = 2, kHead = 4;

/// A Llama of two blocks with random weights; `broken` puts a NaN into the second block.
class TinyFolder {
 public:
  explicit TinyFolder(bool broken = false) {
    std::ofstream(scratch_ / "config.json")
        << nlohmann::json{{"architectures", {"LlamaForCausalLM"}},
                          {"model_type", "llama"},
                          {"hidden_size", kWidth},
                          {"intermediate_size", kHidden},
                          {"num_hidden_layers", 2},
                          {"num_attention_heads", kHeads},
                          {"num_key_value_heads", kKvHeads},
                          {"head_dim", kHead},
                          {"vocab_size", kVocab},
                          {"max_position_embeddings", 12},
                          {"rms_norm_eps", 1e-5},
                          {"rope_theta", 10000.0},
                          {"hidden_act", "silu"},
                          {"tie_word_embeddings", false}};
    add("model.embed_tokens.weight", {kVocab, kWidth});
    for (int layer = 0; layer < 2; ++layer) {
      const std::string block = "model.layers." + std::to_string(layer) + ".";
      add(block + "input_layernorm.weight", {kWidth});
      add(block + "self_attn.q_proj.weight", {kHeads * kHead, kWidth});
      add(block + "self_attn.k_proj.weight", {kKvHeads * kHead, kWidth});
      add(block + "self_attn.v_proj.weight", {kKvHeads * kHead, kWidth});
      add(block + "self_attn.o_proj.weight", {kWidth, kHeads * kHead});
      add(block + "post_attention_layernorm.weight", {kWidth});
      add(block + "mlp.gate_proj.weight", {kHidden, kWidth});
      add(block + "mlp.up_proj.weight", {kHidden, kWidth});
      add(block + "mlp.down_proj.weight", {kWidth, kHidden});
    }
    add("model.norm.weight", {kWidth});
    add("lm_head.weight", {kVocab, kWidth});
    if (broken) {
      tensors_.at("model.layers.1.self_attn.v_proj.weight").data<float>()[3] =
          std::numeric_limits<float>::quiet_NaN();
    }
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : tensors_) named.push_back({name, tensor.view()});
    write_safetensors(scratch_ / "model.safetensors", named);
  }
  std::string path() const { return (scratch_ / "").string(); }

 private:
  void add(const std::string& name, Shape shape) {
    Tensor tensor(DType::kF32, std::move(shape));
    generator_.randn({tensor.data<float>(), static_cast<size_t>(tensor.count())});
    tensors_.emplace(name, std::move(tensor));
  }

  Scratch scratch_;
  Generator generator_{7};
  std::map<std::string, Tensor> tensors_;
};

TEST(Folder, TextNeedsATokenizerIdsDoNot) {
  const TinyFolder model;
  EXPECT_TRUE(fails(run({"run", model.path(), "-p", "hello"}), 2, "--tokens"));
  EXPECT_TRUE(fails(run({"trace", model.path(), "-p", "hello"}), 2, "--tokens"));

  const std::vector<std::string> arguments{"run", model.path(), "--tokens", "1, 2 3", "-n", "4"};
  const nlohmann::json made = run_json(arguments);
  EXPECT_EQ(made.at("prompt_ids"), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(made.at("ids").size(), 4U);
  EXPECT_TRUE(made.at("text").is_null());
  const Outcome text = run(arguments);
  EXPECT_EQ(text.out, joined(made.at("ids").get<std::vector<int64_t>>()) + "\n");
}

TEST(Folder, ChatNeedsATemplateThatTakesTheConversation) {
  const TinyFolder model;
  EXPECT_TRUE(fails(run({"run", model.path(), "--chat", "--tokens", "1"}), 2, "--chat"));
  EXPECT_TRUE(fails(run({"run", model.path(), "-p", "x", "--system", "s"}), 2, "--chat"));
  std::filesystem::copy_file(test_file("golden/tokenizers/base.json"),
                             model.path() + "tokenizer.json");
  EXPECT_TRUE(fails(run({"run", model.path(), "--chat", "-p", "hi"}), 2, "chat template"));

  std::ofstream(model.path() + "tokenizer_config.json") << R"({"bos_token": "<s>"})";
  std::ofstream(model.path() + "chat_template.jinja")
      << "{% if messages[0].role != 'user' %}{{ raise_exception('No system turn here') }}{% endif "
         "%}"
         "{{ bos_token }}<|im_start|>{{ messages[0].content }}<|im_end|>";
  const nlohmann::json ids = run_json({"tokenize", model.path(), "--chat", "-p", "hi"}).at("ids");
  const nlohmann::json same =
      run_json({"tokenize", model.path(), "-p", "<s><|im_start|>hi<|im_end|>"}).at("ids");
  EXPECT_EQ(ids, same);
  EXPECT_EQ(ids[0], 0);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 0), 1) << "one begin token, the template's";
  EXPECT_TRUE(fails(run({"tokenize", model.path(), "--chat", "--system", "s", "-p", "hi"}), 2,
                    "No system turn here"));
  std::ofstream(model.path() + "chat_template.jinja") << "{{ 1";
  EXPECT_TRUE(fails(run({"tokenize", model.path(), "--chat", "-p", "hi"}), 3, "line 1"));
}

TEST(Folder, TheContextEndsAnAnswer) {
  const TinyFolder model;
  const nlohmann::json made = run_json({"run", model.path(), "--tokens", "1,2,3", "-n", "100"});
  EXPECT_EQ(made.at("ids").size(), 9U);  // of a context of 12
  EXPECT_EQ(made.at("stop"), "length");
  const nlohmann::json none = run_json({"run", model.path(), "--tokens", "1", "-n", "0"});
  EXPECT_TRUE(none.at("ids").empty());
  EXPECT_TRUE(none.at("decode_tok_s").is_null());
}

TEST(Folder, AllComputesAgree) {
  const TinyFolder model;
  const auto ids = [&](const char* compute) {
    return run_json({"run", model.path(), "--tokens", "5,6,7", "-n", "8", "--compute", compute})
        .at("ids");
  };
  EXPECT_EQ(ids("fast"), ids("f64"));
  EXPECT_EQ(ids("f32"), ids("f64"));
}

TEST(Folder, BothFilesHoldEveryStepAndTheTokens) {
  const TinyFolder model;
  const Scratch scratch;
  const std::string one = (scratch / "a.safetensors").string();
  const std::string two = (scratch / "a.npz").string();
  const std::vector<std::string> arguments{"trace",     model.path(), "--tokens", "3,1,4,1",
                                           "--compute", "f64",        "--out"};
  for (const std::string& file : {one, two}) {
    std::vector<std::string> with_file = arguments;
    with_file.push_back(file);
    const Outcome outcome = run(with_file);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(file), std::string::npos);
  }
  const auto a = SafetensorsFile::open(one);
  const auto b = NpzFile::open(two);
  EXPECT_EQ(a.tensors().size(), b.names().size());
  for (const std::string& name : b.names()) {
    const Tensor from_npz = b.read(name);
    ASSERT_NE(a.find(name), nullptr) << name;
    EXPECT_EQ(a.find(name)->shape, from_npz.shape());
    EXPECT_EQ(to_f64(a.view(name)), to_f64(from_npz.view())) << name;
  }
  EXPECT_EQ(to_f64(a.view("tokens")), (std::vector<double>{3, 1, 4, 1}));
  EXPECT_EQ(a.view("head").dtype(), DType::kF64);
  EXPECT_EQ(a.find("logits"), nullptr) << "a second name of head";
}

TEST(Folder, LastEqualsTheEndOfAll) {
  const TinyFolder model;
  const auto logits = [&](const char* which) {
    return run_json({"trace", model.path(), "--tokens", "9,8,7", "--sites", "logits,*.q",
                     "--positions", which, "--compute", "f64"})
        .at("steps");
  };
  EXPECT_EQ(logits("last"), logits("2:3"));
  EXPECT_EQ(logits("all").back().at("shape"), (std::vector<int64_t>{1, 3, kVocab}));
}

TEST(Folder, ScoreOfIdsInWindows) {
  const TinyFolder model;
  EXPECT_TRUE(
      fails(run({"score", model.path(), "--file", test_file("cli/run_command.h")}), 2, "--tokens"));
  std::vector<std::string> arguments{"score", model.path(), "--tokens", "1,2,3,4,5,6,7,8,9"};
  const nlohmann::json whole = run_json(arguments);
  EXPECT_EQ(whole.at("tokens"), 8);
  EXPECT_EQ(whole.at("context"), 12);
  const double nll = whole.at("nll").get<double>();
  EXPECT_NEAR(whole.at("perplexity").get<double>(), std::exp(nll), 1e-12 * std::exp(nll));
  EXPECT_NE(run(arguments).out.find("8 predicted, in 1 window"), std::string::npos);
  arguments.insert(arguments.end(), {"--context", "4"});
  EXPECT_EQ(run_json(arguments).at("tokens"), 6);  // windows of 4, 4 and 1
  arguments.back() = "13";
  EXPECT_TRUE(fails(run(arguments), 2, "at most 12"));
  EXPECT_TRUE(fails(run({"score", model.path(), "--tokens", "1"}), 2, "two tokens"));
  EXPECT_TRUE(fails(run({"score", model.path(), "--tokens", "1,32"}), 2, "31"));
  const TinyFolder broken(true);
  const nlohmann::json nan = run_json({"score", broken.path(), "--tokens", "1,2,3"});
  EXPECT_EQ(nan.at("nll"), "nan");
  EXPECT_EQ(nan.at("perplexity"), "nan");
}

TEST(Folder, NotANumberIsNamedInJson) {
  const TinyFolder model(true);
  const nlohmann::json steps =
      run_json({"trace", model.path(), "--tokens", "1,2", "--sites", "blocks.1.v,blocks.1.q"})
          .at("steps");
  EXPECT_TRUE(steps[0].at("rms").is_number());
  EXPECT_EQ(steps[1].at("site"), "blocks.1.v");
  EXPECT_EQ(steps[1].at("rms"), "nan");
  EXPECT_EQ(steps[1].at("max"), "nan");
  EXPECT_EQ(steps[1].at("first")[0], "nan");
  EXPECT_TRUE(steps[1].at("first")[1].is_number());
  const Outcome checked = run({"check", model.path(), "--json"});
  EXPECT_EQ(checked.code, 1) << checked.err;
  EXPECT_EQ(checked.out.find("-nan"), std::string::npos) << checked.out;
  const std::string table = run({"trace", model.path(), "--tokens", "1,2"}).out;
  EXPECT_NE(table.find(" nan "), std::string::npos) << table;
  EXPECT_EQ(table.find("-nan"), std::string::npos) << table;
  // Sampling refuses to draw from what is not a number.
  EXPECT_TRUE(fails(run({"run", model.path(), "--tokens", "1", "--json"}), 3, "NaN"));
}

TEST(Folder, BreakIsSeenByTraceAndCheck) {
  const TinyFolder model;
  const auto q_rot = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"trace",   model.path(), "--tokens",
                                       "1,2,3,4", "--sites",    "blocks.*.q_rot"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_json(arguments).at("steps");
  };
  const nlohmann::json right = q_rot({});
  const nlohmann::json wrong = q_rot({"--break", "rope.pairing@1"});
  EXPECT_EQ(right[0], wrong[0]);
  EXPECT_NE(right[1], wrong[1]);
  const Outcome checked = run({"check", model.path(), "--break", "rope.pairing@1"});
  EXPECT_EQ(checked.code, 1);
  EXPECT_NE(checked.out.find("blocks.1.q_rot"), std::string::npos) << checked.out;
  const Outcome list = run({"check", "--break", "list"});
  EXPECT_EQ(list.code, 0);
  EXPECT_NE(list.out.find("residual.doubled"), std::string::npos);
}

TEST(Folder, AnUnknownConfigKeyCanBeAllowed) {
  const TinyFolder model;
  const std::string path = model.path() + "config.json";
  nlohmann::json config = nlohmann::json::parse(slurp(path));
  config["a_key_of_tomorrow"] = 1.5;
  std::ofstream(path) << config;
  EXPECT_TRUE(fails(run({"inspect", model.path()}), 3, "a_key_of_tomorrow"));
  EXPECT_EQ(run({"inspect", "--allow-unknown-key", "a_key_of_tomorrow", model.path()}).code, 0);
}

TEST(Folder, BenchHasItsKeys) {
  const TinyFolder model;
  const nlohmann::json limits = run_json({"bench", "limits", "--threads", "1"});
  EXPECT_GT(limits.at("peak_gflops"), 0);
  EXPECT_GT(limits.at("peak_read_gb_s"), 0);
  const nlohmann::json bench = run_json(
      {"bench", "model", model.path(), "--prefill", "8", "--decode", "4", "--threads", "1"});
  for (const char* key :
       {"prefill_tok_s", "decode_tok_s", "read_gb_s", "peak_read_gb_s", "load_ms", "peak_rss_mb"}) {
    EXPECT_GT(bench.at(key), 0) << key;
  }
  EXPECT_TRUE(fails(run({"bench", "model", model.path(), "--prefill", "12"}), 2, "12"));
}

}  // namespace
}  // namespace mainstem::cli_test
