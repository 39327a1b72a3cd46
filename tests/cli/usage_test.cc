// Exit codes and messages: 2 for what was typed, 3 for what was read, one line each.

#include <sstream>

#include "cli/run_command.h"

namespace mainstem::cli_test {
namespace {

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
      {{"draw"}, 2, "MODEL or --block"},
      {{"draw", "m", "--block", "--width", "64"}, 2, "both"},
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
  EXPECT_EQ(std::system((std::string(MAINSTEM_BINARY) + " example >&- 2>&- <&-").c_str()), 0);
}

}  // namespace
}  // namespace mainstem::cli_test
