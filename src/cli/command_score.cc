#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/text.h"
#include "mainstem/error.h"
#include "mainstem/score.h"

namespace mainstem::cli {
namespace {

struct Options {
  CommonOptions common;
  ModelOptions model;
  std::string file, tokens;
  bool has_file = false, has_tokens = false;
  int64_t context = 0;
};

/// The file's text. Bytes in another encoding would be scored as noise, so they are an error.
std::string read_text(const std::string& path) {
  std::string text = read_text_file(path);
  if (text.empty()) throw bad_input("text", "one token at least", "an empty file").in(path);
  const std::string valid = valid_utf8(text);
  const auto [bad, _] = std::mismatch(text.begin(), text.end(), valid.begin(), valid.end());
  if (bad != text.end()) {
    throw bad_input(
        "text", "UTF-8",
        fmt::format("0x{:02X} at byte {}", static_cast<unsigned char>(*bad), bad - text.begin()))
        .in(path);
  }
  return text;
}

std::string json_text(const Score& score) {
  JsonWriter json;
  json.begin_object(JsonWriter::kLines).field("tokens", score.tokens).field("nll", score.nll);
  json.field("perplexity", score.perplexity()).field("windows", score.windows);
  return json.field("context", score.context).end_object().text();
}

std::string table_text(const Score& score) {
  Table table({{""}, {""}});
  table.add({"perplexity", fmt::format("{:.4f}", score.perplexity())});
  table.add({"nll", fmt::format("{:.6f} nats per token, the mean", score.nll)});
  table.add(
      {"tokens", fmt::format("{} predicted, in {} window{} of {}{}", with_commas(score.tokens),
                             with_commas(score.windows), score.windows == 1 ? "" : "s",
                             score.windows == 1 ? "at most " : "", with_commas(score.context))});
  return table.text();
}

int run_score(const Options& options) {
  if (options.has_file == options.has_tokens) {
    throw usage_error("score", "--file TEXT or --tokens IDS",
                      options.has_file ? "both" : "neither");
  }
  std::vector<int64_t> ids;
  std::string text;
  if (options.has_tokens) {
    ids = parse_ids(options.tokens, "--tokens");
  } else {
    text = read_text(options.file);
  }
  watch_interrupt();
  const Model model = load_model(options.model, options.has_file);
  std::optional<Progress> bar;
  const ScoreOptions scoring{.context = options.context,
                             .compute = options.common.compute_mode(),
                             .threads = options.common.thread_count(),
                             .progress =
                                 [&](int64_t done, int64_t total) {
                                   check_interrupt();
                                   if (!bar) bar.emplace("scoring", total);
                                   bar->update(done);
                                 },
                             .cancel = interrupt_flag()};
  const Score result =
      options.has_file ? score(model, text, scoring) : score(model.bound(), ids, {}, scoring);
  bar.reset();
  print(options.common.json ? json_text(result) : table_text(result));
  return 0;
}

}  // namespace

void add_score(CommandLine& line) {
  Command command =
      line.add("score",
               "How well a decoder predicts a text: the mean negative log-likelihood of its\n"
               "tokens, and the perplexity, exp of it. The text is cut into windows of the\n"
               "context length, without overlap. Where the model's files put a begin token\n"
               "before a text, every window starts with one, which is not predicted itself;\n"
               "where they do not, the first token of a window is not. No end token is added.");
  auto options = std::make_shared<Options>();
  add_model(command, options->model);
  command.text("-f,--file", options->file, "TEXT",
               "A file with the text, UTF-8; - reads\nstandard input");
  command.text(
      "--tokens", options->tokens, "IDS",
      "Ids instead of text: 1,2,3 or @FILE, in\nwindows as they are, without begin tokens\n"
      "(works without tokenizer files)");
  command.number("--context", options->context, {2, int64_t{1} << 40},
                 "Tokens of a window, begin token included\n(default: the model's context)");
  add_common(command, options->common, "f32");
  command.action([options, command] {
    options->has_file = command.given("--file");
    options->has_tokens = command.given("--tokens");
    return run_score(*options);
  });
}

}  // namespace mainstem::cli
