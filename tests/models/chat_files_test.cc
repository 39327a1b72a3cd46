// Where a model's files keep chat templates and special tokens.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "mainstem/chat.h"
#include "mainstem/error.h"
#include "mainstem/tokenizer.h"
#include "models/tokenizer_files.h"

namespace mainstem {
namespace {

using test::GgufTokenizer;
using test::write_file;

std::string error_of(const std::filesystem::path& path, const std::string& name = "default") {
  try {
    ChatTemplate::load(path, name);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChatFiles, AStringInTheConfiguration) {
  const test::TempDir folder;
  write_file(folder / "tokenizer_config.json",
             R"({"chat_template": "{{ bos_token }}{{ eos_token }}{{ pad_token }}|{{ unk_token }}",
                 "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false},
                 "pad_token": null})");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render({}), "<s></s>|");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render({}, {.bos_token = "B"}), "B</s>|");
  EXPECT_EQ(ChatTemplate::names(folder.path()), std::vector<std::string>{"default"});
  // What the configuration leaves out may stand in the map.
  write_file(folder / "special_tokens_map.json", R"({"bos_token": "no", "unk_token": "<unk>"})");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render({}), "<s></s>|<unk>");
}

TEST(ChatFiles, AListInTheConfiguration) {
  const test::TempDir folder;
  write_file(folder / "tokenizer_config.json",
             R"({"chat_template": [{"name": "default", "template": "one"},
                                   {"name": "tool_use", "template": "two"}]})");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render({}), "one");
  EXPECT_EQ(ChatTemplate::load(folder.path(), "tool_use").render({}), "two");
  EXPECT_NE(error_of(folder.path(), "rag").find("one of default, tool_use"), std::string::npos);
}

TEST(ChatFiles, AFileOfItsOwnComesFirst) {
  const test::TempDir folder;
  write_file(folder / "tokenizer_config.json", R"({"chat_template": "old", "bos_token": "B"})");
  write_file(folder / "chat_template.jinja", "new {{ bos_token }}\n");
  std::filesystem::create_directory(folder / "additional_chat_templates");
  write_file(folder / "additional_chat_templates/rag.jinja", "rag");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render({}), "new B");
  EXPECT_EQ(ChatTemplate::load(folder.path(), "rag").render({}), "rag");
}

TEST(ChatFiles, ErrorsNameTheFile) {
  const test::TempDir folder;
  EXPECT_NE(error_of(folder.path()).find(folder.path().string()), std::string::npos);
  EXPECT_TRUE(ChatTemplate::names(folder.path()).empty());
  write_file(folder / "tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_NE(error_of(folder.path()).find("tokenizer_config.json"), std::string::npos);
  write_file(folder / "tokenizer_config.json", R"({"bos_token": 5})");
  EXPECT_NE(error_of(folder.path()).find("bos_token"), std::string::npos);
  write_file(folder / "tokenizer_config.json", R"({"chat_template": "a\n{{"})");
  EXPECT_NE(error_of(folder.path()).find("line 2"), std::string::npos);
}

TEST(ChatFiles, Gguf) {
  const test::TempDir folder;
  auto builder = GgufTokenizer::base().builder();
  builder.text("tokenizer.chat_template", "{{ bos_token }}|{{ eos_token }}")
      .text("tokenizer.chat_template.tool_use", "tools")
      .text("tokenizer.chat_templates_are_fun", "no");
  const auto path = write_file(folder / "model.gguf", builder.build());
  const Tokenizer tokenizer = Tokenizer::load(path);
  EXPECT_EQ(ChatTemplate::load(path).render({}),
            std::string(tokenizer.token_bytes(0)) + "|" + std::string(tokenizer.token_bytes(1)));
  EXPECT_EQ(ChatTemplate::load(path, "tool_use").render({}), "tools");
  EXPECT_EQ(ChatTemplate::names(path), (std::vector<std::string>{"default", "tool_use"}));
}

TEST(ChatFiles, SmolLm2) {
  const char* models = std::getenv("MAINSTEM_MODELS");
  const auto path =
      std::filesystem::path(models == nullptr ? "" : models) / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (models == nullptr || !std::filesystem::exists(path)) {
    GTEST_SKIP() << "MAINSTEM_MODELS names no folder with SmolLM2-135M-Instruct.Q4_1.gguf";
  }
  const auto chat = ChatTemplate::load(path);
  EXPECT_EQ(chat.special_tokens().at("eos_token"), "<|im_end|>");
  const nlohmann::json golden = test::read_golden("chat.json");
  EXPECT_EQ(chat.text(), golden.at("templates")[0].at("template").get<std::string>());
}

}  // namespace
}  // namespace mainstem
