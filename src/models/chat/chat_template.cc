#include "mainstem/chat.h"

#include "io/text.h"
#include "mainstem/error.h"
#include "models/chat/files.h"
#include "models/chat/interpreter.h"
#include "models/chat/json_value.h"
#include "models/chat/operators.h"
#include "models/chat/parser.h"

namespace mainstem {

struct ChatTemplate::Impl {
  std::string text;
  chat::Body body;
  std::map<std::string, std::string> special_tokens;

  static std::shared_ptr<Impl> parse(std::string_view text);
};

namespace {

constexpr size_t kMostTemplateBytes = size_t{1} << 20;

using chat::Kind;
using chat::Runtime;
using chat::Value;

Value text_value(Runtime& runtime, const std::string& text, const char* what) {
  if (valid_utf8_prefix(text) != text.size()) throw usage_error(what, "UTF-8", "other bytes");
  return runtime.text(text);
}

/// The reasoning of a message under whichever of its names it has.
Value reasoning_of(const chat::Dict& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const Value* found = chat::find(message, name);
    if (found != nullptr && !found->is(Kind::kNone)) return *found;
  }
  return {};
}

/// As transformers 5.24.0: null members go, and reasoning is there under two names.
Value prepared_message(Runtime& runtime, const Value& given) {
  if (!given.is(Kind::kDict)) {
    throw usage_error("chat messages", "objects", std::string(type_name(given)));
  }
  const auto& message = given.at<const chat::Dict>();
  const Value reasoning = reasoning_of(message);
  const bool has_reasoning = !reasoning.is(Kind::kNone);
  std::vector<std::pair<Value, Value>> entries;
  if (has_reasoning) entries.emplace_back(runtime.text("thinking"), reasoning);
  for (const auto& [key, value] : message.entries) {
    if (!value.is(Kind::kNone)) entries.emplace_back(key, value);
  }
  if (has_reasoning) entries.emplace_back(runtime.text("reasoning_content"), reasoning);
  return runtime.dict(std::move(entries));
}

Value prepared_messages(Runtime& runtime, const Value& messages) {
  if (!messages.is(Kind::kList)) {
    throw usage_error("chat messages", "a list", std::string(type_name(messages)));
  }
  chat::Items prepared;
  for (const Value& message : messages.items()) {
    prepared.push_back(prepared_message(runtime, message));
  }
  return runtime.list(std::move(prepared));
}

Value messages_of(Runtime& runtime, std::span<const ChatMessage> messages) {
  chat::Items items;
  for (const ChatMessage& message : messages) {
    items.push_back(runtime.dict(
        {{runtime.text("role"), text_value(runtime, message.role, "role of a chat message")},
         {runtime.text("content"), text_value(runtime, message.content, "chat message")}}));
  }
  return runtime.list(std::move(items));
}

Value optional_json(Runtime& runtime, const std::string& text, const char* what) {
  return text.empty() ? Value() : chat::value_of_json(runtime, text, what);
}

chat::Shared<chat::Scope> variables(Runtime& runtime,
                                    const std::map<std::string, std::string>& tokens,
                                    const ChatOptions& options) {
  auto scope = std::make_shared<chat::Scope>();
  for (const auto& [name, text] : tokens) scope->set(name, runtime.text(text));
  if (!options.variables.empty()) {
    const Value more = chat::value_of_json(runtime, options.variables, "chat variables");
    if (!more.is(Kind::kDict)) throw usage_error("chat variables", "a JSON object", "another");
    for (const auto& [name, value] : more.at<const chat::Dict>().entries) {
      scope->set(name.text(), value);
    }
  }
  if (options.bos_token) scope->set("bos_token", text_value(runtime, *options.bos_token, "BOS"));
  if (options.eos_token) scope->set("eos_token", text_value(runtime, *options.eos_token, "EOS"));
  scope->set("tools", optional_json(runtime, options.tools, "chat tools"));
  scope->set("documents", optional_json(runtime, options.documents, "chat documents"));
  scope->set("add_generation_prompt", Value(options.add_generation_prompt));
  return scope;
}

std::string run(Runtime& runtime, const chat::Body& body, chat::Shared<chat::Scope> globals,
                const Value& messages) {
  globals->set("messages", messages);
  return with_context("the chat template",
                      [&] { return chat::Interpreter(runtime, std::move(globals)).run(body); });
}

}  // namespace

std::shared_ptr<ChatTemplate::Impl> ChatTemplate::Impl::parse(std::string_view text) {
  if (text.size() > kMostTemplateBytes) {
    throw bad_input("chat template", "at most " + std::to_string(kMostTemplateBytes) + " bytes",
                    std::to_string(text.size()));
  }
  auto impl = std::make_shared<Impl>();
  impl->text = text;
  impl->body = chat::Parser(text).run();
  return impl;
}

ChatTemplate ChatTemplate::parse(std::string_view text) { return ChatTemplate(Impl::parse(text)); }

ChatTemplate ChatTemplate::load(const std::filesystem::path& folder_or_file,
                                std::string_view name) {
  const chat::ChatFiles files = chat::read_chat_files(folder_or_file);
  const auto found = files.templates.find(std::string(name));
  if (found == files.templates.end()) {
    std::string known;
    for (const auto& [each, text] : files.templates) known += (known.empty() ? "" : ", ") + each;
    throw usage_error(name == "default" ? "chat template" : "chat template " + quote(name),
                      known.empty() ? "one in the model's files" : "one of " + known, "none")
        .in(folder_or_file.string());
  }
  return with_context(folder_or_file.string(), [&] {
    auto impl = Impl::parse(found->second);
    impl->special_tokens = files.special_tokens;
    return ChatTemplate(std::move(impl));
  });
}

std::vector<std::string> ChatTemplate::names(const std::filesystem::path& folder_or_file) {
  std::vector<std::string> names;
  for (const auto& [name, text] : chat::read_chat_files(folder_or_file).templates) {
    names.push_back(name);
  }
  return names;
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages,
                                 const ChatOptions& options) const {
  Runtime runtime({}, options.now);
  auto scope = variables(runtime, impl_->special_tokens, options);
  return run(runtime, impl_->body, std::move(scope), messages_of(runtime, messages));
}

std::string ChatTemplate::render_json(std::string_view messages, const ChatOptions& options) const {
  Runtime runtime({}, options.now);
  auto scope = variables(runtime, impl_->special_tokens, options);
  const Value given = chat::value_of_json(runtime, messages, "chat messages");
  return run(runtime, impl_->body, std::move(scope), prepared_messages(runtime, given));
}

const std::string& ChatTemplate::text() const { return impl_->text; }
const std::map<std::string, std::string>& ChatTemplate::special_tokens() const {
  return impl_->special_tokens;
}

}  // namespace mainstem
