#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "cli/text.h"
#include "mainstem/error.h"
#include "mainstem/sampling.h"

namespace mainstem::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostTokens = int64_t{1} << 40;

struct Options {
  CommonOptions common;
  ModelOptions model;
  PromptOptions prompt;
  int64_t count = 128;
  SamplingOptions sampling;
  bool ignore_eos = false;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The library's message, with the option's spelling for the field's: top_p, --top-p.
void check_sampling(const SamplingOptions& options) {
  try {
    validate(options);
  } catch (const Error& error) {
    std::string text = error.what();
    std::replace(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find(':')), '_',
                 '-');
    throw usage_error("--" + text);
  }
}

/// Options that only draws use would be without effect.
void expect_draws(const Command& command, const SamplingOptions& options) {
  if (options.temperature > 0) return;
  for (const char* option : {"--top-k", "--top-p", "--min-p", "--seed"}) {
    if (!command.given(option)) continue;
    throw usage_error(option, "--temperature above 0 with it",
                      command.given("--temperature") ? "0" : "none")
        .hint("without it the most probable token is taken");
  }
}

struct Generated {
  std::vector<int64_t> ids;
  std::string text;
  const char* stop = "length";
  bool context_full = false;
  size_t prompt_tokens = 0;
  int64_t decode_passes = 0;
  double first_token_s = 0, prefill_s = 0, decode_s = 0;

  std::optional<double> prefill_rate() const {
    if (prefill_s <= 0) return std::nullopt;
    return static_cast<double>(prompt_tokens) / prefill_s;
  }
  std::optional<double> decode_rate() const {
    if (decode_passes == 0 || decode_s <= 0) return std::nullopt;
    return static_cast<double>(decode_passes) / decode_s;
  }
};

/// "eos" for the token that ends a text, "stop" for another one that ends an answer, else null.
const char* end_reason(const Model& model, int64_t id) {
  const auto& ends = model.end_ids();
  if (std::find(ends.begin(), ends.end(), id) == ends.end()) return nullptr;
  if (model.has_tokenizer() && model.tokenizer().eos_id().value_or(id) != id) return "stop";
  return "eos";
}

class Generation {
 public:
  Generation(const Model& model, const Options& options, Clock::time_point start)
      : model_(model),
        options_(options),
        start_(start),
        session_(model.bound(), {.compute = options.common.compute_mode(),
                                 .threads = options.common.thread_count(),
                                 .cancel = interrupt_flag()}),
        sequence_(session_.add_sequence()),
        sampler_(options.sampling) {
    if (model.has_tokenizer())
      decoder_.emplace(model.tokenizer(), DecodeOptions{.skip_special = false});
  }

  Generated run(const SequenceInput& prompt) {
    result_.prompt_tokens = prompt.encoder_tokens.size() + prompt.tokens.size();
    std::vector<int64_t> history = prompt.tokens;
    const int64_t context = model_.spec().context_length;
    std::vector<float> logits = prefill(prompt);
    for (int64_t made = 0; made < options_.count; ++made) {
      check_interrupt();
      forbid_words(model_.bad_words(), history, logits);
      const int64_t id = sampler_.sample(logits, history);
      if (made == 0) result_.first_token_s = seconds_since(start_);
      if (const char* reason = end_reason(model_, id); reason != nullptr && !options_.ignore_eos) {
        result_.stop = reason;
        break;
      }
      history.push_back(id);
      emit(id);
      const bool full = context > 0 && static_cast<int64_t>(history.size()) >= context;
      if (made + 1 == options_.count) break;
      if (full) {
        result_.context_full = true;
        break;
      }
      const auto begin = Clock::now();
      logits = forward({id});
      result_.decode_s += seconds_since(begin);
      ++result_.decode_passes;
    }
    if (decoder_) show(decoder_->finish());
    return std::move(result_);
  }

 private:
  std::vector<float> forward(std::vector<int64_t> tokens, std::vector<int64_t> encoder = {}) {
    const SequenceInput input{
        .sequence = sequence_, .tokens = std::move(tokens), .encoder_tokens = std::move(encoder)};
    return session_.forward({&input, 1});
  }

  std::vector<float> prefill(const SequenceInput& prompt) {
    const auto begin = Clock::now();
    std::vector<float> logits = forward(prompt.tokens, prompt.encoder_tokens);
    result_.prefill_s = seconds_since(begin);
    return logits;
  }

  void emit(int64_t id) {
    result_.ids.push_back(id);
    show(decoder_ ? decoder_->push(id) : (result_.ids.size() > 1 ? "," : "") + std::to_string(id));
  }

  void show(const std::string& piece) {
    result_.text += piece;
    if (!options_.common.json && !piece.empty()) print(piece);
  }

  const Model& model_;
  const Options& options_;
  Clock::time_point start_;
  Session session_;
  int64_t sequence_;
  Sampler sampler_;
  std::optional<StreamDecoder> decoder_;
  Generated result_;
};

std::string json_text(const SequenceInput& prompt, const Generated& made, bool has_text) {
  const bool encodes = !prompt.encoder_tokens.empty();
  JsonWriter json;
  json.begin_object(JsonWriter::kLines);
  json.field("prompt_ids", encodes ? prompt.encoder_tokens : prompt.tokens);
  if (encodes) json.field("decoder_ids", prompt.tokens);
  json.field("ids", made.ids);
  json.key("text");
  has_text ? json.value(made.text) : json.null();
  json.field("stop", made.stop).field("prefill_tok_s", made.prefill_rate());
  json.field("decode_tok_s", made.decode_rate());
  json.field("first_token_ms", made.first_token_s * 1000);
  return json.end_object().text();
}

std::string summary(const Generated& made) {
  std::string text = "[prompt " + count_text(static_cast<int64_t>(made.prompt_tokens), "token");
  if (const auto rate = made.prefill_rate()) text += fmt::format(", {:.1f} tok/s", *rate);
  text += fmt::format(" | generated {}", made.ids.size());
  if (const auto rate = made.decode_rate()) text += fmt::format(", {:.1f} tok/s", *rate);
  return text +
         fmt::format(" | first token after {:.2f} s | stop: {}]", made.first_token_s, made.stop);
}

int run(const Options& options, Clock::time_point start) {
  check_prompt(options.prompt);
  check_sampling(options.sampling);
  expect_draws(*options.prompt.command, options.sampling);
  watch_interrupt();
  const Model model = load_model(options.model, true);
  if (model.spec().head.kind == HeadKind::kNone) {
    throw usage_error("run", "a model with a head that predicts tokens", "none")
        .in(options.model.path);
  }
  const SequenceInput prompt = first_input(options.prompt, model);
  Generation generation(model, options, start);
  try {
    const Generated made = generation.run(prompt);
    if (options.common.json) {
      print(json_text(prompt, made, model.has_tokenizer()));
    } else {
      print("\n");
      note(summary(made));
    }
    if (made.context_full) {
      note(fmt::format("stopped: the model's context of {} tokens is full",
                       model.spec().context_length));
    }
  } catch (const Interrupted&) {
    if (!options.common.json) print("\n");
    throw;
  }
  return 0;
}

}  // namespace

void add_run(CommandLine& line) {
  const auto start = Clock::now();
  Command command =
      line.add("run",
               "Generate text. Greedy unless a temperature is given; stops at any of the\n"
               "model's end tokens. The text goes to standard output as it is made. An\n"
               "encoder-decoder translates the prompt. Tokens that the model's files forbid\n"
               "(bad_words_ids) are never chosen.");
  auto options = std::make_shared<Options>();
  add_model(command, options->model);
  add_prompt(command, options->prompt, PromptSources::kTextOrTokens);
  add_chat(command, options->prompt);
  add_decoder_tokens(command, options->prompt);
  command.number("-n,--count", options->count, {0, kMostTokens},
                 "Most tokens to generate (default: 128)");
  SamplingOptions& sampling = options->sampling;
  command.number("--temperature", sampling.temperature, "0: greedy (default)");
  command.number("--top-k", sampling.top_k, {}, "Keep the k most probable tokens (0: all)");
  command.number("--top-p", sampling.top_p,
                 "Keep the most probable until their sum is\np (1: all)");
  command.number("--min-p", sampling.min_p,
                 "Keep those at least p times as probable as\nthe most probable one");
  command.number("--repeat-penalty", sampling.repeat_penalty,
                 "Above 1: tokens of the text so far become less\nlikely");
  command.number("--seed", sampling.seed, "Of the draws (default: 0)");
  command.flag("--ignore-eos", options->ignore_eos, "End tokens are tokens as any other");
  add_common(command, options->common, "fast");
  command.action([options, start] { return run(*options, start); });
}

}  // namespace mainstem::cli
