#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/text.h"
#include "mainstem/check.h"
#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

struct Options {
  CommonOptions common;
  ModelOptions model;
  std::string mistake;
};

int list_mistakes(bool as_json) {
  if (as_json) {
    JsonWriter json;
    json.begin_object(JsonWriter::kLines).key("mistakes").begin_array(JsonWriter::kLines);
    for (const MistakeInfo& info : known_mistakes()) {
      json.begin_object().field("id", info.id).field("what", info.what).end_object();
    }
    print(json.end_array().end_object().text());
    return 0;
  }
  Table table({{"id"}, {"what it does"}});
  for (const MistakeInfo& info : known_mistakes()) table.add({info.id, info.what});
  print(table.text());
  return 0;
}

/// The loader has refused the model if a weight is missing or left over; this says what it found.
CheckResult file_check(const Model& model) {
  std::string detail =
      fmt::format("all {} weights the program needs are there", model.program().weights.size());
  const auto& ignored = model.ignored_weights();
  if (ignored.empty()) return {"file", CheckStatus::kOk, detail + " and no others"};
  return {"file", CheckStatus::kOk,
          fmt::format("{}; left over and harmless: {} ({})", detail, ignored.size(),
                      fmt::join(ignored, ", "))};
}

std::vector<CheckResult> checked(const Program& program, const WeightSources& weights,
                                 int threads) {
  watch_interrupt();
  constexpr int64_t kPercent = 100;
  Progress bar("check", kPercent);
  return check(program, weights, {.threads = threads, .progress = [&](int64_t done, int64_t total) {
                                    check_interrupt();
                                    bar.update(done * kPercent / total);
                                  }});
}

std::string styled_status(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return styled(Style::kGreen, name(status));
    case CheckStatus::kFailed:
      return styled(Style::kRed, name(status));
    case CheckStatus::kNotApplicable:
      return styled(Style::kDim, name(status));
  }
  return {};
}

int check_model(const Options& options) {
  if (options.mistake == "list") return list_mistakes(options.common.json);
  if (options.model.path.empty()) throw usage_error("check", "MODEL", "none");
  std::optional<Mistake> mistake;
  if (!options.mistake.empty()) mistake = parse_mistake(options.mistake);
  exit_on_interrupt();  // nothing of the loading needs an end of its own
  const Model model = load_model(options.model, false);
  std::vector<CheckResult> results{file_check(model)};
  const BrokenModel checked_model = mistake
                                        ? make_mistake(model.program(), model.weights(), *mistake)
                                        : BrokenModel{model.program(), model.weights()};
  for (CheckResult& result :
       checked(checked_model.program, checked_model.weights, options.common.thread_count())) {
    results.push_back(std::move(result));
  }
  const bool failed = std::any_of(results.begin(), results.end(), [](const CheckResult& result) {
    return result.status == CheckStatus::kFailed;
  });
  if (options.common.json) {
    JsonWriter json;
    json.begin_object(JsonWriter::kLines);
    if (mistake) json.field("broken", options.mistake).field("broken_how", checked_model.what);
    json.key("checks").begin_array(JsonWriter::kLines);
    for (const CheckResult& result : results) {
      json.begin_object().field("id", result.id);
      json.key("status").value(name(result.status)).field("detail", result.detail).end_object();
    }
    print(json.end_array().end_object().text());
  } else {
    Table table({{"check"}, {"status"}, {"detail"}});
    for (const CheckResult& result : results) {
      table.add({result.id, styled_status(result.status), result.detail});
    }
    print(broken_line(options.mistake, checked_model.what) + table.text());
  }
  return failed ? 1 : 0;
}

}  // namespace

void add_check(CommandLine& line) {
  Command command =
      line.add("check",
               "The known failure modes of a transformer block as checks on a model.\n"
               "Exit code 1 if one fails.");
  auto options = std::make_shared<Options>();
  add_model(command, options->model, ModelNeed::kOptional);
  command.text("--break", options->mistake, "ID[@LAYER]",
               "Make a known mistake on purpose, to see it\ncaught; 'list' lists them");
  add_common(command, options->common, "f32");
  command.action([options] { return check_model(*options); });
}

}  // namespace mainstem::cli
