#include "cli/arguments.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "mainstem/error.h"
#include "mainstem/threads.h"

namespace mainstem::cli {

Compute CommonOptions::compute_mode() const {
  if (compute == "fast") return Compute::kFast;
  return compute == "f64" ? Compute::kF64 : Compute::kF32;
}

void add_common(Command& command, CommonOptions& options, const char* default_compute) {
  options.compute = default_compute;
  command.group("Common options");
  command.number("--threads", options.threads, {1, ThreadPool::kMaxThreads},
                 "Default: all that this process may use");
  command.choice("--compute", options.compute, {"fast", "f32", "f64"},
                 "fast: float32, but inputs of products with\n"
                 "quantised weights are rounded to 8 bits per 32\n"
                 "columns. f32: weights expanded exactly, float32\n"
                 "throughout. f64: the reference in double.\n"
                 "Default: " +
                     options.compute);
  command.flag("--json", options.json, "Print one JSON document");
}

void add_model(Command& command, ModelOptions& options, ModelNeed need) {
  command.positional("MODEL", options.path, need == ModelNeed::kRequired,
                     "A folder with config.json, or a .gguf file");
  command.texts("--allow-unknown-key", options.allow_unknown_keys, "KEY",
                "Accept a config key that nobody knows");
}

void expect_model_path(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status)) return;
  throw bad_input("model", "a folder or a .gguf file", error ? error.message() : "nothing")
      .in(path);
}

Model load_model(const ModelOptions& options, bool with_tokenizer) {
  expect_model_path(options.path);
  return Model::load(options.path, {.allow_unknown_keys = options.allow_unknown_keys,
                                    .skip_tokenizer = !with_tokenizer});
}

void add_prompt(Command& command, PromptOptions& options, PromptSources sources) {
  options.command = command;
  options.has_file = sources == PromptSources::kTextOrFile;
  options.takes_batch = sources == PromptSources::kTextOrBatch;
  command.any_text("-p,--prompt", options.text, "TEXT", "The text");
  if (options.has_file) {
    command.text("-f,--file", options.file, "FILE", "A file with the text; - is standard input");
  } else {
    std::string help = "Ids instead of text: 1,2,3 or @FILE\n(works without tokenizer files)";
    if (options.takes_batch) {
      help +=
          ".\nGiven several times it is a batch, whose shorter\nsequences are padded on the left";
    }
    command.texts("--tokens", options.tokens, "IDS", help);
  }
}

void add_chat(Command& command, PromptOptions& options) {
  command.flag("--chat", options.chat,
               "The text is a user's turn: the model's chat\ntemplate is put around it");
  command.text("--system", options.system, "TEXT", "A system's turn before it (needs --chat)");
}

namespace {

/// Each list can be read, and there is one where there is no batch.
void check_lists(const std::vector<std::string>& lists, const PromptOptions& options,
                 const char* option) {
  for (const std::string& list : lists) parse_ids(list, option);
  if (lists.size() > 1 && !options.takes_batch) throw usage_error(option, "one value", "several");
}

}  // namespace

void check_prompt(const PromptOptions& options) {
  const bool text = options.command->given("-p");
  const bool other = options.command->given(options.has_file ? "--file" : "--tokens");
  if (text == other) {
    throw usage_error("prompt",
                      options.has_file ? "-p TEXT or --file FILE" : "-p TEXT or --tokens IDS",
                      text ? "both" : "neither");
  }
  check_lists(options.tokens, options, "--tokens");
  check_lists(options.decoder_tokens, options, "--decoder-tokens");
  if (options.chat && !options.needs_tokenizer()) throw usage_error("--chat", "text", "ids");
  if (!options.system.empty() && !options.chat) {
    throw usage_error("--system", "--chat with it", "none");
  }
}

std::vector<int64_t> encode_prompt(const PromptOptions& options, const Tokenizer& tokenizer,
                                   const std::string& path) {
  const std::string text = options.from_file() ? read_text_file(options.file) : options.text;
  if (!options.chat) return tokenizer.encode(text);
  if (ChatTemplate::names(path).empty()) {
    throw usage_error("--chat", "a chat template in the model's files", "none")
        .in(path)
        .hint("without --chat the model goes on with the text as it is");
  }
  std::vector<ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", text});
  const std::string rendered =
      ChatTemplate::load(path).render(messages, {.add_generation_prompt = true});
  return tokenizer.encode(rendered, {.add_special = false});
}

namespace {

enum class IdSource { kPrompt, kDecoder, kTokenizer };

/// Inside the vocabulary, and no more than the model's context.
void check_ids(const std::vector<int64_t>& ids, const Model& model, IdSource source) {
  const bool decoder = source == IdSource::kDecoder;
  const int64_t vocab = model.spec().vocab_size;
  for (int64_t id : ids) {
    if (id >= 0 && id < vocab) continue;
    const std::string expected = "ids from 0 to " + std::to_string(vocab - 1);
    if (source == IdSource::kTokenizer) {
      throw bad_input("the tokenizer", expected, std::to_string(id)).in(model.path().string());
    }
    throw usage_error(decoder ? "--decoder-tokens" : "--tokens", expected, std::to_string(id));
  }
  const int64_t context = model.spec().context_length;
  const auto count = static_cast<int64_t>(ids.size());
  if (context > 0 && count > context) {
    throw usage_error(decoder ? "--decoder-tokens" : "prompt",
                      "at most " + std::to_string(context) + " tokens, the model's context",
                      std::to_string(count));
  }
}

/// The prompts' ids: of the text, or of each --tokens.
std::vector<std::vector<int64_t>> prompt_ids(const PromptOptions& options, const Model& model) {
  const bool from_text = options.needs_tokenizer();
  std::vector<std::vector<int64_t>> prompts;
  if (from_text) {
    prompts.push_back(encode_prompt(options, model.tokenizer(), model.path().string()));
    if (prompts[0].empty()) {
      throw usage_error("prompt", "one token at least", "an empty text")
          .hint("this model's files put no begin token before a text");
    }
  }
  for (const std::string& list : options.tokens) prompts.push_back(parse_ids(list, "--tokens"));
  for (const auto& ids : prompts) {
    check_ids(ids, model, from_text ? IdSource::kTokenizer : IdSource::kPrompt);
  }
  return prompts;
}

/// What the decoder of an encoder-decoder reads, for each prompt.
std::vector<std::vector<int64_t>> decoder_ids(const PromptOptions& options, const Model& model,
                                              size_t prompts) {
  const std::vector<std::string>& lists = options.decoder_tokens;
  if (lists.size() > 1 && lists.size() != prompts) {
    throw usage_error("--decoder-tokens",
                      "one for all --tokens, or one for each of the " + std::to_string(prompts),
                      std::to_string(lists.size()));
  }
  std::vector<std::vector<int64_t>> result;
  for (const std::string& list : lists) {
    result.push_back(parse_ids(list, "--decoder-tokens"));
    check_ids(result.back(), model, IdSource::kDecoder);
  }
  if (result.empty()) {
    const auto start = model.decoder_start_id();
    if (!start) {
      throw usage_error("--decoder-tokens", "ids (the model's files name no start token)", "none")
          .in(model.path().string());
    }
    result.push_back({*start});
  }
  result.resize(prompts, result[0]);
  return result;
}

}  // namespace

void add_decoder_tokens(Command& command, PromptOptions& options) {
  command.texts("--decoder-tokens", options.decoder_tokens, "IDS",
                std::string("Encoder-decoder models, whose encoder reads the\n"
                            "prompt: what the decoder reads (default: the\n"
                            "model's start token)") +
                    (options.takes_batch ? ";\nonce for all --tokens or once for each" : ""));
}

std::vector<SequenceInput> first_inputs(const PromptOptions& options, const Model& model) {
  std::vector<SequenceInput> inputs;
  for (std::vector<int64_t>& ids : prompt_ids(options, model)) {
    inputs.push_back({.tokens = std::move(ids)});
  }
  if (!model.spec().encoder) {
    if (options.decoder_tokens.empty()) return inputs;
    throw usage_error("--decoder-tokens", "an encoder-decoder model", "a model of one stack")
        .in(model.path().string());
  }
  std::vector<std::vector<int64_t>> decoder = decoder_ids(options, model, inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].encoder_tokens = std::exchange(inputs[i].tokens, std::move(decoder[i]));
  }
  return inputs;
}

SequenceInput first_input(const PromptOptions& options, const Model& model) {
  return first_inputs(options, model).front();
}

std::vector<int64_t> parse_ids(const std::string& text, const char* option) {
  if (text.starts_with('@')) {
    const std::string path = text.substr(1);
    const std::string content = read_text_file(path);
    if (content.starts_with('@'))
      throw usage_error(option, "ids in the file", "another @").in(path);
    return with_context(path, [&] { return parse_ids(content, option); });
  }
  std::vector<int64_t> ids;
  constexpr std::string_view kSpace = " \t\r\n[]", kBetween = ", \t\r\n[]";
  bool wants_id = false;  // a comma stands before
  for (size_t at = text.find_first_not_of(kSpace); at != std::string::npos;) {
    if (text[at] == ',') {
      if (wants_id || ids.empty()) break;
      wants_id = true;
      at = text.find_first_not_of(kSpace, at + 1);
      continue;
    }
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    int64_t id = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc() || stop != text.data() + end) {
      throw usage_error(option, "integers, as in 1,2,3", "'" + text.substr(at, end - at) + "'");
    }
    ids.push_back(id);
    wants_id = false;
    at = text.find_first_not_of(kSpace, end);
  }
  if (wants_id) throw usage_error(option, "an id behind every comma", "none");
  if (ids.empty()) throw usage_error(option, "one id at least", "none");
  return ids;
}

std::string read_text_file(const std::string& path_or_dash) {
  const std::string path = path_or_dash == "-" ? "/dev/stdin" : path_or_dash;
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  if (!file || std::filesystem::is_directory(path, error)) {
    throw bad_input("text file", "one that can be read", "none").in(path);
  }
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (file.bad()) throw bad_input("text file", "one that can be read", "an error").in(path);
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    if (end != 0 && !text.empty()) parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace mainstem::cli
