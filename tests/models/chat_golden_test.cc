// Texts against transformers 5.24.0 with jinja2 3.1.6 (tests/generators/make_chat.py).
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "mainstem/chat.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

// Members keep their order: templates print dicts.
using Json = nlohmann::ordered_json;

const Json& golden() {
  static const Json document =
      Json::parse(std::ifstream(std::string(MAINSTEM_TEST_DATA) + "/golden/chat.json"));
  return document;
}

class ChatGolden : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TZ", "UTC0", 1);
    tzset();
  }

  /// The text, or nothing where there is an error.
  static std::optional<std::string> render(const Json& text, const Json& variables,
                                           const Json& conversation = Json::object()) {
    ChatOptions options;
    options.now = golden().at("now").get<std::time_t>();
    options.variables = variables.dump();
    options.add_generation_prompt = conversation.value("add_generation_prompt", false);
    if (conversation.contains("tools")) options.tools = conversation.at("tools").dump();
    if (conversation.contains("documents")) options.documents = conversation.at("documents").dump();
    const std::string messages = conversation.value("messages", Json::array()).dump();
    try {
      return ChatTemplate::parse(text.get<std::string>()).render_json(messages, options);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
      EXPECT_NE(std::string(error.what()).find("line "), std::string::npos) << error.what();
      last_error = error.what();
      return std::nullopt;
    }
  }
  static std::optional<std::string> expected(const Json& text) {
    return text.is_null() ? std::nullopt : std::optional(text.get<std::string>());
  }

  static inline std::string last_error;
};

TEST_F(ChatGolden, TemplatesOfKnownModels) {
  ASSERT_EQ(golden().at("templates").size(), 15U);
  for (const Json& each : golden().at("templates")) {
    int texts = 0;
    for (const Json& conversation : golden().at("conversations")) {
      const auto name = conversation.at("name").get<std::string>();
      Json variables = each.at("tokens");
      variables.update(conversation.value("variables", Json::object()));
      last_error.clear();
      const auto wanted = expected(each.at("texts").at(name));
      EXPECT_EQ(render(each.at("template"), variables, conversation), wanted)
          << each.at("name") << ", conversation " << name << ": " << last_error;
      texts += wanted.has_value() ? 1 : 0;
    }
    EXPECT_GE(texts, 2) << each.at("name") << " refuses too much to be a test";
  }
}

TEST_F(ChatGolden, SmallTemplates) {
  ASSERT_GT(golden().at("expressions").size(), 300U);
  for (const Json& entry : golden().at("expressions")) {
    last_error.clear();
    EXPECT_EQ(render(entry[0], golden().at("variables")), expected(entry[1]))
        << entry[0] << ": " << last_error;
  }
}

}  // namespace
}  // namespace mainstem
