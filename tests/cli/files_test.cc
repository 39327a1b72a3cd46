// What the commands say about a model's files: the folder, its formulas, what is not there.

#include "cli/run_command.h"
#include "cli/tiny_llama.h"

namespace mainstem::cli_test {
namespace {

TEST(Files, AFileOfTheFolderIsNotTheModel) {
  const TinyLlama model;
  for (const char* name : {"model.safetensors", "config.json"}) {
    const Outcome outcome = run({"inspect", model.file(name)});
    EXPECT_TRUE(fails(outcome, 3, "give the folder: ")) << name;
    EXPECT_NE(outcome.err.find(model.path().substr(0, model.path().size() - 1)), std::string::npos);
  }
}

TEST(Files, AMissingTokenizerIsAUsageErrorEverywhere) {
  const TinyLlama model;
  for (const char* command : {"tokenize", "run", "trace"}) {
    EXPECT_TRUE(fails(run({command, model.path(), "-p", "hello"}), 2, "--tokens")) << command;
  }
  EXPECT_TRUE(
      fails(run({"score", model.path(), "--file", test_file("cli/run_command.h")}), 2, "--tokens"));
}

TEST(Files, FormulasStandForAllEqualBlocks) {
  const TinyLlama model;
  const std::string text = run({"inspect", model.path()}).out;
  EXPECT_NE(text.find("blocks.N, N = 0-2"), std::string::npos) << text;
  EXPECT_NE(text.find("= blocks.N-1.resid_post (block 0: embed)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("= attn_proj\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("= blocks.0."), std::string::npos) << text;
}

TEST(Files, AFullContextIsSaid) {
  const TinyLlama model;
  const std::vector<std::string> arguments{"run", model.path(), "--tokens",    "1,5,3",
                                           "-n",  "1000",       "--ignore-eos"};
  const std::string words = "stopped: the model's context of 128 tokens is full\n";
  EXPECT_NE(run(arguments).err.find(words), std::string::npos);
  std::vector<std::string> with_json = arguments;
  with_json.emplace_back("--json");
  const Outcome outcome = run(with_json);
  EXPECT_EQ(outcome.json().at("stop"), "length");
  EXPECT_EQ(outcome.err, words);
  const Outcome asked = run({"run", model.path(), "--tokens", "1,5,3", "-n", "4", "--ignore-eos"});
  EXPECT_EQ(asked.err.find("full"), std::string::npos);
}

TEST(Files, CheckMarksWhatIsBrokenOnPurpose) {
  const TinyLlama model;
  const Outcome broken = run({"check", model.path(), "--break", "rope.pairing", "--json"});
  EXPECT_EQ(broken.code, 1) << broken.err;
  EXPECT_EQ(broken.json().at("broken"), "rope.pairing");
  EXPECT_FALSE(run({"check", model.path(), "--json"}).json().contains("broken"));
}

}  // namespace
}  // namespace mainstem::cli_test
