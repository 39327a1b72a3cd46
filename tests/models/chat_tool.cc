// Renders many chat templates in one process, for parity scripts.
//
//   chat_tool < LINES
//
// Each line of input is {"template": "…", "messages": […], "variables": {…}, "tools": […],
// "documents": […], "add_generation_prompt": true, "now": seconds}; all but the first may be left
// out. Each line of output is {"text": "…"}, in the same order, or {"error": "…"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "mainstem/chat.h"
#include "mainstem/error.h"

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found == line.end() ? std::string() : found->dump();
}

Json answer(const Json& line) {
  try {
    mainstem::ChatOptions options;
    options.add_generation_prompt = line.value("add_generation_prompt", false);
    options.tools = text_of(line, "tools");
    options.documents = text_of(line, "documents");
    options.variables = text_of(line, "variables");
    if (line.contains("now")) options.now = line.at("now").get<std::time_t>();
    const std::string messages = text_of(line, "messages");
    const auto chat = mainstem::ChatTemplate::parse(line.at("template").get<std::string>());
    return {{"text", chat.render_json(messages.empty() ? "[]" : messages, options)}};
  } catch (const mainstem::Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  try {
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << answer(Json::parse(line)).dump() << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 3;
  }
}
