#pragma once

// What the fuzz target does with its input: a template, a NUL byte, and messages as JSON. Nothing
// but an Error of kind bad input or usage may come out. tests/models/chat_corpus_test.cc runs the
// kept corpus through it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "mainstem/chat.h"
#include "mainstem/error.h"

namespace mainstem::fuzz {

inline void run_chat_template(std::span<const std::byte> bytes) {
  const std::string_view input(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t end = std::min(input.find('\0'), input.size());
  std::string_view messages = input.substr(std::min(end + 1, input.size()));
  if (messages.empty())
    messages = R"([{"role":"user","content":"a é\n"},{"role":"x","l":[1,2.5]}])";
  try {
    const auto chat = ChatTemplate::parse(input.substr(0, end));
    const ChatOptions options{.add_generation_prompt = true,
                              .bos_token = "<s>",
                              .tools = R"([{"name":"f","parameters":{"b":1,"a":null}}])",
                              .now = 0};
    // Rendering depends on nothing else.
    if (chat.render_json(messages, options) != chat.render_json(messages, options)) std::abort();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) std::abort();
  }
}

}  // namespace mainstem::fuzz
