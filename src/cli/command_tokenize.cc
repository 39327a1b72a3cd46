#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/json_writer.h"
#include "cli/table.h"
#include "cli/text.h"
#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

struct Options {
  CommonOptions common;
  ModelOptions model;
  PromptOptions prompt;
};

std::string note_of(const Tokenizer& tokenizer, int64_t id) {
  if (!tokenizer.is_special(id)) return {};
  const auto& ends = tokenizer.end_ids();
  return std::find(ends.begin(), ends.end(), id) == ends.end() ? "special" : "special, ends a text";
}

int tokenize(const Options& options) {
  check_prompt(options.prompt);
  expect_model_path(options.model.path);
  const Tokenizer tokenizer = Tokenizer::load(options.model.path);
  const std::vector<int64_t> ids = encode_prompt(options.prompt, tokenizer, options.model.path);
  if (options.common.json) {
    JsonWriter json;
    json.begin_object(JsonWriter::kLines).field("ids", ids).key("pieces").begin_array();
    for (int64_t id : ids) json.value(tokenizer.piece(id));
    print(json.end_array().end_object().text());
    return 0;
  }
  Table table({{"", Align::kRight}, {"id", Align::kRight}, {"piece"}, {""}});
  for (size_t i = 0; i < ids.size(); ++i) {
    table.add({std::to_string(i), std::to_string(ids[i]), "'" + tokenizer.piece(ids[i]) + "'",
               styled(Style::kDim, note_of(tokenizer, ids[i]))});
  }
  print(count_text(static_cast<int64_t>(ids.size()), "token") + "\n" +
        (ids.empty() ? "" : table.text()));
  return 0;
}

}  // namespace

void add_tokenize(CommandLine& line) {
  Command command =
      line.add("tokenize",
               "Ids and pieces of a text. Special tokens in it are recognised; begin and\n"
               "end tokens are added as the model's files say.");
  auto options = std::make_shared<Options>();
  add_model(command, options->model);
  add_prompt(command, options->prompt, PromptSources::kTextOrFile);
  add_chat(command, options->prompt);
  add_common(command, options->common, "f32");
  command.action([options] { return tokenize(*options); });
}

}  // namespace mainstem::cli
