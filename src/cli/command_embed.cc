#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "mainstem/embed.h"
#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

constexpr size_t kFirstInTable = 4;

struct Options {
  CommonOptions common;
  ModelOptions model;
  std::vector<std::string> texts, tokens;
  std::string file, pooling;
  bool normalize = false, has_file = false, has_normalize = false;
  bool from_tokens() const { return !tokens.empty(); }
};

void check_sources(const Options& options) {
  const int given = (options.texts.empty() ? 0 : 1) + (options.tokens.empty() ? 0 : 1) +
                    (options.has_file ? 1 : 0);
  if (given == 1) return;
  throw usage_error("embed", "-p TEXT..., --file FILE or --tokens IDS...",
                    given == 0 ? "none of them" : "several of them");
}

/// The lines of the file that are not empty.
std::vector<std::string> read_lines(const std::string& path) {
  std::vector<std::string> lines = split(read_text_file(path), '\n');
  for (std::string& line : lines) {
    if (line.ends_with('\r')) line.pop_back();
  }
  std::erase(lines, std::string());
  if (lines.empty()) throw bad_input("text file", "one line with text at least", "none").in(path);
  return lines;
}

std::vector<std::vector<int64_t>> read_ids(const Options& options, const Model& model,
                                           const EmbeddingRules& rules) {
  std::vector<std::vector<int64_t>> ids;
  for (const std::string& list : options.tokens) ids.push_back(parse_ids(list, "--tokens"));
  if (options.from_tokens()) return ids;
  for (const std::string& text : options.has_file ? read_lines(options.file) : options.texts) {
    check_interrupt();
    ids.push_back(embedding_ids(model, text, rules));
  }
  return ids;
}

EmbeddingRules rules_of(const Options& options, const Model& model) {
  EmbeddingRules rules = read_embedding_rules(model);
  for (const Pooling pooling :
       {Pooling::kMean, Pooling::kCls, Pooling::kMax, Pooling::kMeanSqrtLen}) {
    if (name(pooling) == options.pooling) rules.pooling = pooling;
  }
  if (options.has_normalize) rules.normalize = options.normalize;
  return rules;
}

/// Which rules were used and who says so.
std::string rules_text(const Options& options, const EmbeddingRules& rules) {
  const bool own = !options.pooling.empty() || options.has_normalize;
  return fmt::format("{} of the tokens, {}normalised ({}{})", name(rules.pooling),
                     rules.normalize ? "" : "not ", own ? "as given; else " : "",
                     rules.source.empty() ? "the files say nothing of it" : rules.source);
}

class Result {
 public:
  Result(std::vector<std::vector<int64_t>> ids, std::vector<std::vector<double>> vectors)
      : ids_(std::move(ids)), vectors_(std::move(vectors)) {}

  std::string json_text(const EmbeddingRules& rules, bool in_double) const {
    JsonWriter json;
    json.begin_object(JsonWriter::kLines).key("ids").begin_array(JsonWriter::kLines);
    for (const auto& ids : ids_) json.value(ids);
    json.end_array().key("embeddings").begin_array(JsonWriter::kLines);
    for (const auto& vector : vectors_) {
      if (in_double) {
        json.value(vector);
      } else {
        json.value(std::vector<float>(vector.begin(), vector.end()));
      }
    }
    json.end_array().field("pooling", name(rules.pooling)).field("normalized", rules.normalize);
    return json.field("rules_from", rules.source).end_object().text();
  }

  std::string table_text() const {
    std::vector<Column> columns{{"", Align::kRight},
                                {"tokens", Align::kRight},
                                {"length", Align::kRight},
                                {"first values"}};
    Table table(columns);
    for (size_t i = 0; i < vectors_.size(); ++i) {
      double squares = 0;
      for (const double value : vectors_[i]) squares += value * value;
      std::string first;
      for (size_t d = 0; d < std::min(vectors_[i].size(), kFirstInTable); ++d) {
        first += fmt::format("{}{:.4g}", d > 0 ? " " : "", vectors_[i][d]);
      }
      table.add({std::to_string(i + 1), std::to_string(ids_[i].size()),
                 fmt::format("{:.4f}", std::sqrt(squares)), first});
    }
    return table.text();
  }

 private:
  std::vector<std::vector<int64_t>> ids_;
  std::vector<std::vector<double>> vectors_;
};

int run_embed(const Options& options) {
  check_sources(options);
  for (const std::string& list : options.tokens) parse_ids(list, "--tokens");
  watch_interrupt();
  const Model model = load_model(options.model, !options.from_tokens());
  const EmbeddingRules rules = rules_of(options, model);
  std::optional<Progress> bar;
  const EmbedOptions embedding{.rules = rules,
                               .compute = options.common.compute_mode(),
                               .threads = options.common.thread_count(),
                               .progress = [&](int64_t done, int64_t total) {
                                 check_interrupt();
                                 if (!bar) bar.emplace("embedding", total);
                                 bar->update(done);
                               }};
  std::vector<std::vector<int64_t>> ids = read_ids(options, model, rules);
  std::vector<std::vector<double>> vectors = embed(model, ids, embedding);
  bar.reset();
  const Result result(std::move(ids), std::move(vectors));
  if (options.common.json) {
    print(result.json_text(rules, options.common.compute == "f64"));
  } else {
    note(rules_text(options, rules));
    print(result.table_text());
  }
  return 0;
}

}  // namespace

void add_embed(CommandLine& line) {
  Command command =
      line.add("embed",
               "One vector for each text, from an encoder model: its last rows pooled over\n"
               "the tokens and normalised as the model's files say (modules.json of\n"
               "sentence-transformers); where they say nothing, the mean, not normalised.\n"
               "With --json the vectors in full.");
  auto options = std::make_shared<Options>();
  add_model(command, options->model);
  command.texts("-p,--prompt", options->texts, "TEXT", "A text; may be given several times");
  command.text("-f,--file", options->file, "FILE", "A text on each line; - is standard input");
  command.texts("--tokens", options->tokens, "IDS",
                "Ids instead of text: 1,2,3 or @FILE, as they\nare; may be given several times");
  command.choice("--pooling", options->pooling, {"mean", "cls", "max"},
                 "Instead of what the files say");
  command.flag("--normalize", options->normalize,
               "Divide each vector by its length, whatever the\nfiles say; --no-normalize: do not");
  command.negation("--no-normalize", options->normalize);
  add_common(command, options->common, "f32");
  command.action([options, command] {
    options->has_file = command.given("--file");
    options->has_normalize = command.given("--normalize") || command.given("--no-normalize");
    return run_embed(*options);
  });
}

}  // namespace mainstem::cli
