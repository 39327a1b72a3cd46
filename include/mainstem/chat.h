#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", or what else the template knows
  std::string content;
};

struct ChatOptions {
  /// Ends the text with what begins an answer.
  bool add_generation_prompt = false;
  /// In place of the special tokens that the model's files name.
  std::optional<std::string> bos_token = {}, eos_token = {};
  /// JSON: a list of tools as schemas, a list of documents. Empty: the template sees none.
  std::string tools = {}, documents = {};
  /// JSON: an object with further variables, as in {"enable_thinking": false}.
  std::string variables = {};
  /// Seconds since 1970, shown in local time where a template asks for the date. Default: the
  /// clock.
  std::optional<std::time_t> now = {};
};

/// A chat template of a model: a Jinja2 text that turns a conversation into the text the model was
/// trained on. Immutable; copies share the parsed template, and any number of threads may render.
///
///     auto chat = mainstem::ChatTemplate::load("SmolLM2-135M-Instruct.Q4_1.gguf");
///     std::string text = chat.render({{{"user", "Hello"}}}, {.add_generation_prompt = true});
///     auto ids = tokenizer.encode(text, {.add_special = false});
///
/// The text holds its own special tokens, BOS too where the model wants one: encode it without
/// adding any, as transformers' apply_chat_template does.
///
/// The language is what transformers 5.24.0 gives templates: jinja2 3.1.6's sandbox with
/// trim_blocks, lstrip_blocks and loop controls, without autoescape. Supported: text, expressions,
/// comments, white-space control, raw; if, for (with else and a condition), break, continue, set
/// (also of namespaces and of blocks), macro, filter, with, generation; all operators; the string,
/// dict and list methods that change nothing; the filters and tests that templates use;
/// namespace, dict, range, raise_exception, strftime_now. Anything else (call, include, recursive
/// loops, unknown filters, …) is an Error of parse() that names it. Apart from that: integers end
/// at 64 bits; a character's upper and lower case are one character (but for ß); and a given
/// variable is seen until the template sets one of its name (jinja2 hides it from inner scopes
/// before that too).
///
/// Rendering is bounded in steps, memory, depth and output; nothing outside the given values can be
/// reached. Errors are kBadInput and name the line; raise_exception in a template is kUsage with
/// the template's own message.
class ChatTemplate {
 public:
  /// From the text of a template. Special tokens are then those of the options alone.
  static ChatTemplate parse(std::string_view text);
  /// What a model's files hold: a folder with chat_template.jinja (others in
  /// additional_chat_templates/NAME.jinja) or chat_template in tokenizer_config.json, a string or a
  /// list of {name, template}; a .gguf file with tokenizer.chat_template and
  /// tokenizer.chat_template.NAME. bos_token and the other special tokens come from
  /// tokenizer_config.json or special_tokens_map.json, or from the ids in the GGUF file. A usage
  /// Error where there is no template of this name.
  static ChatTemplate load(const std::filesystem::path& folder_or_file,
                           std::string_view name = "default");
  /// Names of the templates that load() finds; empty where there is none.
  static std::vector<std::string> names(const std::filesystem::path& folder_or_file);

  /// The conversation as text. A usage Error for text that is not UTF-8.
  std::string render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;
  /// The same for messages as JSON, a list of objects, which may hold more than role and content
  /// (tool_calls, reasoning_content, …). As in transformers, members that are null are left out,
  /// and reasoning is passed on under both of its names.
  std::string render_json(std::string_view messages, const ChatOptions& options = {}) const;

  const std::string& text() const;
  /// "bos_token", "eos_token", "pad_token", … with their texts, as the model's files have them.
  const std::map<std::string, std::string>& special_tokens() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace mainstem
