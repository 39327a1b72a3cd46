// Exit codes and messages: 2 for what was typed, 3 for what was read, one line each.

#include <sstream>

#include "cli/run_command.h"

namespace mainstem::cli_test {
namespace {

TEST(Usage, NumbersAreNeverClamped) {
  const std::string much = "99999999999999999999999";
  EXPECT_TRUE(fails(run({"example", "--seed", much}), 2, "--seed"));
  EXPECT_TRUE(fails(run({"example", "--seed", "-1"}), 2, "--seed"));
  EXPECT_EQ(run({"example", "--seed", "18446744073709551615"}).code, 0);
  EXPECT_TRUE(fails(run({"example", "--threads", much}), 2, "1 to 1024"));
  EXPECT_TRUE(fails(run({"example", "--threads", "0"}), 2, "1 to 1024"));
  EXPECT_TRUE(fails(run({"example", "--threads", "1.5"}), 2, "'1.5'"));
  EXPECT_TRUE(fails(run({"example", "--threads", ""}), 2, "--threads"));
  for (const char* option : {"--count", "--top-k"}) {
    EXPECT_TRUE(fails(run({"run", "model", option, much}), 2, option)) << option;
  }
  for (const char* option : {"--temperature", "--top-p", "--min-p", "--repeat-penalty"}) {
    for (const char* value : {"1e999", "nan", "x", "0.5x"}) {
      EXPECT_TRUE(fails(run({"run", "model", option, value}), 2, option)) << option << value;
    }
  }
  EXPECT_TRUE(fails(run({"inspect", "--block", "--width", much}), 2, "--width"));
  EXPECT_TRUE(fails(run({"inspect", "--block", "--width", "8", "--eps", "-1e-3"}), 2, "--eps"));
}

TEST(Usage, NothingIsNoValue) {
  EXPECT_TRUE(fails(run({"trace", "m", "--tokens", "1", "--out", ""}), 2, "--out"));
  EXPECT_TRUE(fails(run({"trace", "m", "--tokens", "1", "--sites", ""}), 2, "--sites"));
  EXPECT_TRUE(fails(run({"trace", "m", "--tokens", ""}), 2, "--tokens"));
  for (const char* ids : {"1,,2", "1,2,3,", ",1", "1, ,2", "[1,2,]"}) {
    EXPECT_TRUE(fails(run({"trace", "m", "--tokens", ids}), 2, "--tokens")) << ids;
  }
  EXPECT_TRUE(fails(run({"example", "--break", ""}), 2, "--break"));
}

TEST(Usage, NearWordsAreNamed) {
  EXPECT_TRUE(fails(run({"tarce"}), 2, "did you mean trace?"));
  EXPECT_TRUE(fails(run({"trace", "m", "--site", "x"}), 2, "did you mean --sites?"));
  EXPECT_TRUE(fails(run({"trace", "m", "--xyz"}), 2, "'--xyz'"));
  EXPECT_TRUE(fails(run({"example", "--mlp", "swigul"}), 2, "did you mean swiglu?"));
  EXPECT_TRUE(fails(run({"inspect", "--block", "--width", "8", "--against", "--nrom", "layer"}), 2,
                    "did you mean --norm?"));
}

TEST(Usage, WhatIsWrongIsSaidInTheSameForm) {
  EXPECT_TRUE(
      fails(run({"trace"}), 2, "trace: expected MODEL, got none; see mainstem trace --help"));
  EXPECT_TRUE(fails(run({"example", "--markdown", "--json"}), 2, "expected no --json beside it"));
  EXPECT_TRUE(fails(run({"example", "--seed"}), 2, "--seed: expected a value behind it, got none"));
  EXPECT_TRUE(fails(run({"example", "--seed", "1", "--seed", "2"}), 2, "--seed"));
  EXPECT_TRUE(fails(run({"example", "more"}), 2, "'more'"));
  EXPECT_TRUE(fails(run({"bench", "model"}), 2, "see mainstem bench model --help"));
  EXPECT_TRUE(fails(run({"bench", "model", "m", "--prefill", "0"}), 2,
                    "--prefill: expected a whole number from 1 to 1073741824, got 0; see mainstem "
                    "bench model --help"));
  EXPECT_TRUE(fails(run({"bench", "model", "m", "--perfill", "1"}), 2, "--prefill"));
}

TEST(Usage, DrawsNeedATemperature) {
  for (const char* option : {"--top-k", "--top-p", "--min-p", "--seed"}) {
    EXPECT_TRUE(fails(run({"run", "m", "--tokens", "1", option, "1"}), 2, "--temperature"));
    EXPECT_TRUE(fails(run({"run", "m", "--tokens", "1", option, "1", "--temperature", "0"}), 2,
                      "--temperature"));
  }
}

TEST(Usage, AClosedOutputIsAnError) {
  const Scratch scratch;
  const std::string err = (scratch / "err").string();
  const std::string line = std::string(MAINSTEM_BINARY) + " example >&- 2>" + err;
  const int status = std::system(line.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_NE(slurp(err).find("standard output"), std::string::npos);
}

TEST(Usage, TheOverviewFitsEightyColumns) {
  const std::string text = run({"--help"}).out;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 80U) << text.substr(begin, end - begin);
  }
}

TEST(Usage, HelpAndVersionGoToStandardOutput) {
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(version.out.starts_with("mainstem "));
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* command :
       {"example", "inspect", "tokenize", "run", "score", "trace", "check", "bench", "draw"}) {
    EXPECT_NE(help.out.find(std::string("\n  ") + command), std::string::npos) << command;
    const Outcome each = run({command, "--help"});
    EXPECT_EQ(each.code, 0) << command;
    EXPECT_TRUE(each.err.empty()) << each.err;
  }
  for (const std::vector<std::string>& words : {std::vector<std::string>{"run"},
                                                {"score"},
                                                {"draw"},
                                                {"trace"},
                                                {"check"},
                                                {"example"},
                                                {"inspect"},
                                                {"tokenize"},
                                                {"bench", "limits"},
                                                {"bench", "model"}}) {
    std::vector<std::string> arguments = words;
    arguments.emplace_back("--help");
    const std::string text = run(arguments).out;
    for (const char* option : {"--threads", "--compute", "--json", "fast"}) {
      EXPECT_NE(text.find(option), std::string::npos) << words[0] << " " << option;
    }
  }
}

TEST(Usage, HelpFitsEightyColumns) {
  for (const char* command :
       {"example", "inspect", "tokenize", "run", "score", "trace", "check", "draw"}) {
    std::istringstream lines(run({command, "--help"}).out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 80U) << command << ": " << line;
    }
  }
}

struct Wrong {
  std::vector<std::string> arguments;
  int code;
  const char* word;
};

TEST(Usage, MistakesAreOneLineAndTheRightCode) {
  const std::vector<Wrong> all = {
      {{}, 2, "command"},
      {{"nonsense"}, 2, "nonsense"},
      {{"--nonsense"}, 2, "--nonsense"},
      {{"run"}, 2, "MODEL"},
      {{"run", "m"}, 2, "prompt"},
      {{"run", "m", "-p", "a", "--tokens", "1"}, 2, "both"},
      {{"run", "m", "--nonsense"}, 2, "--nonsense"},
      {{"run", "m", "-p", "a", "--temperature", "-1"}, 2, "--temperature"},
      {{"run", "m", "-p", "a", "--temperature", "warm"}, 2, "--temperature"},
      {{"run", "m", "-p", "a", "--top-p", "1.5"}, 2, "--top-p"},
      {{"run", "m", "-p", "a", "--repeat-penalty", "0"}, 2, "--repeat-penalty"},
      {{"run", "m", "-p", "a", "--min-p", "nan"}, 2, "--min-p"},
      {{"run", "m", "-p", "a", "-n", "-1"}, 2, "--count"},
      {{"run", "m", "-p", "a", "--threads", "0"}, 2, "--threads"},
      {{"run", "m", "-p", "a", "--compute", "f16"}, 2, "--compute"},
      {{"score", "m"}, 2, "neither"},
      {{"score", "m", "--file", "a", "--tokens", "1"}, 2, "both"},
      {{"score", "m", "--tokens", "1,2", "--context", "0"}, 2, "--context"},
      {{"score", "m", "--tokens", "1,2", "--context", "1"}, 2, "--context"},
      {{"score", "m", "--file", "/no/such/text"}, 3, "/no/such/text"},
      {{"score", "/no/such/model", "--tokens", "1,2"}, 3, "/no/such/model"},
      {{"trace", "m", "--tokens", "1,two"}, 2, "'two'"},
      {{"trace", "m", "--tokens", ""}, 2, "--tokens"},
      {{"trace", "m", "--tokens", "1", "--out", "x.bin"}, 2, "--out"},
      {{"trace", "m", "--tokens", "1", "--break", "no.such"}, 2, "no.such"},
      {{"trace", "m", "--tokens", "1", "--names", "jax"}, 2, "--names"},
      {{"check"}, 2, "MODEL"},
      {{"inspect"}, 2, "MODEL"},
      {{"inspect", "--block"}, 2, "--width"},
      {{"inspect", "--block", "--width", "64", "--heads", "7"}, 2, "--heads"},
      {{"inspect", "--block", "--width", "64", "--against"}, 2, "--against"},
      {{"inspect", "--block", "--width", "64", "--against", "--norm", "rms"}, 2, "--against"},
      {{"inspect", "--block", "--width", "64", "--against", "--what"}, 2, "--what"},
      {{"draw"}, 2, "MODEL, --family NAME and --block"},
      {{"draw", "m", "--block", "--width", "64"}, 2, "more than one"},
      {{"draw", "m", "--family", "gpt2"}, 2, "more than one"},
      {{"draw", "--family", "gpt5"}, 2, "llama-3-8b"},
      {{"draw", "--family", "gpt2", "--norm", "rms"}, 2, "--norm"},
      {{"draw", "--family", "gpt2", "--layer", "12"}, 2, "0 to 11"},
      {{"draw", "--block"}, 2, "--width"},
      {{"draw", "m", "--against", "--norm", "layer"}, 2, "--block"},
      {{"draw", "--block", "--width", "64", "--layer", "1"}, 2, "layer"},
      {{"draw", "/no/such/model"}, 3, "/no/such/model"},
      {{"bench"}, 2, "limits"},
      {{"bench", "everything"}, 2, "everything"},
      {{"example", "--norm", "batch"}, 2, "--norm"},
      {{"example", "--break", "rope.pairing"}, 2, "rope.pairing"},
      {{"run", "/no/such/model", "-p", "a"}, 3, "/no/such/model"},
      {{"check", "/no/such/model"}, 3, "/no/such/model"},
      {{"tokenize", "/no/such/model", "-p", "a"}, 3, "/no/such/model"},
      {{"trace", "m", "--tokens", "@/no/such/file"}, 3, "/no/such/file"},
  };
  for (const Wrong& wrong : all) {
    std::string line = "mainstem";
    for (const std::string& word : wrong.arguments) line += " " + word;
    EXPECT_TRUE(fails(run(wrong.arguments), wrong.code, wrong.word)) << line;
  }
}

TEST(Usage, AFolderWithoutConfigIsBadInput) {
  const Scratch scratch;
  const std::string folder = (scratch / "").string();
  EXPECT_TRUE(fails(run({"inspect", folder}), 3, "config.json"));
}

TEST(Usage, AFullDiskIsReportedAndAClosedReaderIsNot) {
  const Scratch scratch;
  const Outcome full = finish(start({"example"}, scratch, "/dev/full"), scratch);
  EXPECT_EQ(full.code, 3);
  EXPECT_NE(full.err.find("standard output"), std::string::npos);

  const std::string line = std::string(MAINSTEM_BINARY) + " example 2>" +
                           (scratch / "err").string() + " | head -n 1 >/dev/null";
  EXPECT_EQ(std::system(("bash -c '" + line + "'").c_str()), 0);
  EXPECT_EQ(slurp(scratch / "err"), "");
}

TEST(Usage, ClosedStandardFilesDoNoHarm) {
  EXPECT_EQ(std::system((std::string(MAINSTEM_BINARY) + " example >/dev/null 2>&- <&-").c_str()),
            0);
  const int status = std::system((std::string(MAINSTEM_BINARY) + " example >&- 2>&- <&-").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}  // namespace
}  // namespace mainstem::cli_test
