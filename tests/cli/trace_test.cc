// The trace command: which steps, under which names, and where they may be written.

#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "cli/run_command.h"
#include "cli/tiny_llama.h"
#include "mainstem/npz.h"
#include "mainstem/safetensors.h"
#include "support/compare.h"

namespace mainstem::cli_test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> traced(const TinyLlama& model, const std::string& sites,
                                const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"trace", model.path(), "--tokens", "3,1,4", "--sites", sites};
  arguments.insert(arguments.end(), more.begin(), more.end());
  std::vector<std::string> names;
  const nlohmann::json all = run_json(arguments);
  for (const nlohmann::json& step : all.at("steps")) names.push_back(step.at("site"));
  return names;
}

TEST(Trace, NeverReplacesAFileOfTheModel) {
  const TinyLlama model;
  const std::string weights = model.file("model.safetensors");
  const std::string before = slurp(weights);
  fs::create_symlink("model.safetensors", model.file("soft.safetensors"));
  fs::create_hard_link(weights, model.file("hard.safetensors"));
  fs::create_hard_link(model.file("config.json"), model.file("config.npz"));
  const auto traced_to = [&](const std::string& out) {
    return run({"trace", model.path(), "--tokens", "1,2,3", "--sites", "blocks.1.q", "--out", out});
  };
  for (const char* name : {"model.safetensors", "./model.safetensors", "soft.safetensors",
                           "hard.safetensors", "config.npz"}) {
    EXPECT_TRUE(fails(traced_to(model.file(name)), 2, "--out")) << name;
  }
  fs::create_hard_link(weights, model.file("weights.svg"));
  EXPECT_TRUE(fails(run({"draw", model.path(), "--out", model.file("weights.svg")}), 2, "--out"));
  EXPECT_EQ(slurp(weights), before);
  EXPECT_EQ(traced_to(model.file("new.safetensors")).code, 0) << "another file may stand there";
  EXPECT_EQ(traced_to(model.file("new.safetensors")).code, 0) << "and be replaced";
}

TEST(Trace, ANameWrittenOutIsGivenThoughItIsASecondOne) {
  const TinyLlama model;
  using Names = std::vector<std::string>;
  EXPECT_EQ(traced(model, "embed,head,logits"), (Names{"embed", "head", "logits"}));
  EXPECT_EQ(traced(model, "blocks.0.attn_proj, blocks.0.attn_out"),
            (Names{"blocks.0.attn_proj", "blocks.0.attn_out"}));
  const Names once = traced(model, "blocks.0.*");
  EXPECT_EQ(std::count(once.begin(), once.end(), "blocks.0.attn_out"), 0);
  const nlohmann::json steps = run_json({"trace", model.path(), "--tokens", "3,1", "--sites",
                                         "blocks.1.attn_proj,blocks.1.attn_out"})
                                   .at("steps");
  EXPECT_EQ(steps[0].at("rms"), steps[1].at("rms"));
  EXPECT_EQ(steps[1].at("same_as"), "blocks.1.attn_proj");

  const Scratch scratch;
  for (const char* name : {"t.safetensors", "t.npz"}) {
    const std::string file = (scratch / name).string();
    EXPECT_EQ(run({"trace", model.path(), "--tokens", "3,1", "--sites",
                   "*.attn_*,blocks.2.attn_out", "--out", file})
                  .code,
              0);
    std::set<std::string> names;
    if (file.ends_with("npz")) {
      const auto values = NpzFile::open(file);
      names.insert(values.names().begin(), values.names().end());
    } else {
      const auto values = SafetensorsFile::open(file);
      for (const StoredTensor& each : values.tensors()) names.insert(each.name);
      EXPECT_EQ(to_f64(values.view("blocks.2.attn_out")),
                to_f64(values.view("blocks.2.attn_proj")));
    }
    EXPECT_TRUE(names.contains("blocks.2.attn_out")) << name;
    EXPECT_FALSE(names.contains("blocks.1.attn_out")) << name;
  }
}

TEST(Trace, TheTableSaysWhichNamesAreSecondOnes) {
  const TinyLlama model;
  const std::string table =
      run({"trace", model.path(), "--tokens", "3,1", "--sites", "blocks.0.*"}).out;
  EXPECT_NE(table.find("attn_out    = blocks.0.attn_proj\n"), std::string::npos) << table;
  EXPECT_NE(table.find("mlp_out     = blocks.0.mlp_proj\n"), std::string::npos) << table;
}

TEST(Trace, GlobsMayHaveBracesSetsAndSpaces) {
  const TinyLlama model;
  using Names = std::vector<std::string>;
  EXPECT_EQ(traced(model, "blocks.{0,2}.q , blocks.[12].k"),
            (Names{"blocks.0.q", "blocks.1.k", "blocks.2.q", "blocks.2.k"}));
  EXPECT_EQ(traced(model, "blocks.1.{q,k}_rot"), (Names{"blocks.1.q_rot", "blocks.1.k_rot"}));
  const auto refused = [&](const std::string& sites, const std::string& word) {
    EXPECT_TRUE(fails(run({"trace", model.path(), "--tokens", "1", "--sites", sites}), 2, word))
        << sites;
  };
  refused("", "--sites");
  refused("blocks.0.q,,blocks.1.q", "--sites");
  refused("blocks.0.q,", "--sites");
  refused("blocks.{0,1.q", "}");
  refused("blocks.{0,9}.q", "blocks.9.q");
  refused("blocks.1.atn_mix", "did you mean blocks.1.attn_mix?");
}

TEST(Trace, SitesMayBeChosenByOtherWorldsNames) {
  const TinyLlama model;
  using Names = std::vector<std::string>;
  EXPECT_EQ(
      traced(model, "model.layers.1.self_attn.*_proj,lm_head", {"--names", "hf"}),
      (Names{"model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.k_proj",
             "model.layers.1.self_attn.v_proj", "model.layers.1.self_attn.o_proj", "lm_head"}));
  EXPECT_EQ(traced(model, "blocks.*.hook_attn_out", {"--names", "tl"}).size(), 3U);
  EXPECT_EQ(traced(model, "blocks.1.q", {"--names", "tl"}), (Names{"blocks.1.attn.hook_q"}));
}

TEST(Trace, TablesFitEightyColumnsUnderAnyNames) {
  const TinyLlama model;
  for (const char* names : {"mainstem", "hf", "tl", "ggml"}) {
    const std::string table =
        run({"trace", model.path(), "--tokens", "3,1,4", "--names", names}).out;
    size_t begin = 0;
    for (size_t end; (end = table.find('\n', begin)) != std::string::npos; begin = end + 1) {
      EXPECT_LE(end - begin, 80U) << names << ": " << table.substr(begin, end - begin);
    }
  }
}

TEST(Trace, APositionMayBeOneToken) {
  const TinyLlama model;
  const auto steps = [&](const char* which) {
    return run_json({"trace", model.path(), "--tokens", "9,8,7,6", "--sites", "blocks.2.q,logits",
                     "--positions", which})
        .at("steps");
  };
  EXPECT_EQ(steps("1"), steps("1:2"));
  EXPECT_EQ(steps("-1"), steps("last"));
  EXPECT_EQ(steps("-3:-1"), steps("1:3"));
  const auto refused = [&](const char* which) {
    return fails(run({"trace", model.path(), "--tokens", "9,8,7,6", "--positions", which}), 2,
                 "--positions");
  };
  for (const char* which : {"4", "-5", "2:2", "x", "1.5", "", "1:x"}) {
    EXPECT_TRUE(refused(which)) << which;
  }
}

TEST(Trace, WhatIsBrokenOnPurposeIsMarked) {
  const TinyLlama model;
  const std::vector<std::string> arguments{"trace", model.path(), "--tokens",
                                           "3,1",   "--break",    "residual.missing@1"};
  EXPECT_EQ(run_json(arguments).at("broken"), "residual.missing@1");
  const std::string how = run_json(arguments).at("broken_how");
  EXPECT_NE(how.find("the stream"), std::string::npos) << how;
  EXPECT_EQ(run(arguments).out.find("made wrong on purpose: residual.missing@1, " + how + "\n"),
            0U);
  // Numbers that a form leaves open are told.
  EXPECT_NE(
      run({"trace", model.path(), "--tokens", "3,1", "--break", "norm.eps"}).out.find(": eps = "),
      std::string::npos);
  EXPECT_FALSE(run_json({"trace", model.path(), "--tokens", "3,1"}).contains("broken"));
}

TEST(SmolLm2, ALongTraceSaysItsSizeAndEndsSoonOnInterrupt) {
  MAINSTEM_NEEDS_SMOLLM2();
  const Scratch scratch;
  {
    std::ofstream file(scratch / "ids");
    for (int i = 0; i < 5000; ++i) file << "5 ";
  }
  const std::string out = (scratch / "t.npz").string();
  const pid_t pid = start({"trace", smollm2(), "--tokens", "@" + (scratch / "ids").string(),
                           "--sites", "blocks.[0-2].scores", "--out", out, "--compute", "f64"},
                          scratch);
  for (int i = 0; i < 500 && slurp(scratch / "err").empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::this_thread::sleep_for(std::chrono::seconds(2));  // inside a step of the plain loops
  const auto pressed = std::chrono::steady_clock::now();
  kill(pid, SIGINT);
  const Outcome outcome = finish(pid, scratch);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - pressed;
  EXPECT_EQ(outcome.code, 130);
  EXPECT_NE(outcome.err.find("scores 5.4 GB"), std::string::npos) << outcome.err;
  EXPECT_LT(took.count(), 10);  // a step takes minutes
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace mainstem::cli_test
