#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/diff_output.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "mainstem/diff.h"
#include "mainstem/doctor.h"
#include "mainstem/error.h"

// `diff` and `doctor`.

namespace mainstem::cli {
namespace {

struct Options {
  CommonOptions common;
  ModelOptions model;
  std::string dump, tokens, decoder_tokens, map, dtype, layers;
  bool all = false;
};

std::pair<int, int> parse_layers(const std::string& text) {
  const size_t colon = text.find(':');
  const auto number = [&](size_t begin, size_t end) {
    int value = -1;
    const auto [stop, status] = std::from_chars(text.data() + begin, text.data() + end, value);
    if (status != std::errc() || stop != text.data() + end || value < 0) value = -1;
    return value;
  };
  if (colon != std::string::npos) {
    const int begin = number(0, colon);
    const int end = number(colon + 1, text.size());
    if (begin >= 0 && end > begin) return {begin, end};
  }
  throw usage_error("--layers", "A:B, half-open, as in 0:4", text);
}

/// A folder with a config or a GGUF file; anything else is taken for a dump.
bool is_model(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return fs::exists(fs::path(path) / "config.json", ignored);
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  file.read(magic, sizeof magic);
  return file.gcount() == 4 && std::string_view(magic, 4) == "GGUF";
}

DiffOptions diff_options(const Options& options) {
  DiffOptions result;
  if (!options.tokens.empty()) result.tokens = parse_ids(options.tokens, "--tokens");
  if (!options.decoder_tokens.empty()) {
    result.decoder_tokens = parse_ids(options.decoder_tokens, "--decoder-tokens");
  }
  if (!options.map.empty()) {
    result.names =
        with_context(options.map, [&] { return parse_name_map(read_text_file(options.map)); });
  }
  if (!options.dtype.empty()) result.dtype = parse_arithmetic(options.dtype);
  if (!options.layers.empty()) result.layers = parse_layers(options.layers);
  result.threads = options.common.thread_count();
  result.cancel = interrupt_flag();
  return result;
}

/// Runs `work(options)` with a bar.
template <typename Work>
auto with_progress(const char* label, DiffOptions options, Work work) {
  watch_interrupt();
  constexpr int64_t kSteps = 1000;
  Progress bar(label, kSteps);
  options.progress = [&](int64_t done, int64_t total) {
    check_interrupt();
    bar.update(total > 0 ? done * kSteps / total : 0);
  };
  return work(options);
}

int exit_code(const DiffReport& report) {
  switch (report.verdict) {
    case DiffVerdict::kMatch:
      return 0;
    case DiffVerdict::kDivergent:
      return 1;
    case DiffVerdict::kIncomparable:
      return 3;
  }
  return 4;
}

int run_diff(const Options& options) {
  expect_model_path(options.model.path);
  const DiffOptions how = diff_options(options);
  const Dump dump = Dump::open(options.dump);
  DiffReport report;
  if (is_model(options.model.path)) {
    const Model model = load_model(options.model, false);
    report = with_progress("diff", how,
                           [&](const DiffOptions& each) { return diff(model, dump, each); });
  } else {
    const Dump first = Dump::open(options.model.path);
    report = with_progress("diff", how,
                           [&](const DiffOptions& each) { return diff(first, dump, each); });
  }
  print(options.common.json ? diff_json(report) : diff_text(report, options.all));
  return exit_code(report);
}

int run_doctor(const Options& options) {
  expect_model_path(options.model.path);
  const DiffOptions how = diff_options(options);
  const Dump dump = Dump::open(options.dump);
  const Model model = load_model(options.model, false);
  const DoctorReport report = with_progress(
      "doctor", how, [&](const DiffOptions& each) { return doctor(model, dump, each); });
  print(options.common.json ? doctor_json(report) : doctor_text(report, options.all));
  return exit_code(report.diff);
}

/// `diff` and `doctor` take the same options.
void add_comparison(CommandLine& line, const std::string& name, const std::string& about,
                    int (*run)(const Options&)) {
  Command command = line.add(name, about);
  auto options = std::make_shared<Options>();
  add_model(command, options->model);
  command.positional("DUMP", options->dump, true,
                     "What somebody's own implementation wrote down: .safetensors,\n"
                     ".npz, a folder of .npy, .pt, llama.cpp's eval-callback text or\n"
                     "the JSON of transformers' model debugger");
  command.text("--tokens", options->tokens, "IDS", "The ids, where the dump does not hold them");
  command.text("--decoder-tokens", options->decoder_tokens, "IDS", "The decoder's");
  command.text("--map", options->map, "FILE", "Lines 'their name = site' for other names");
  command.choice("--dtype", options->dtype, {"f32", "bf16", "f16", "f64", "q8act"},
                 "What the arithmetic is meant to be; else\nit is read from the values");
  command.text("--layers", options->layers, "A:B", "Load and judge only these blocks");
  command.flag("--all", options->all, "Print every step, not only those that differ");
  add_common(command, options->common, "f64");
  command.action([options, run] { return run(*options); });
}

}  // namespace

void add_diff(CommandLine& line) {
  add_comparison(line, "diff",
                 "Compare a dump with the model, step by step on the dump's own values, and\n"
                 "name the first step that is wrong; or two dumps with each other.\n"
                 "Exit code 1 if they diverge, 3 if they cannot be compared.",
                 run_diff);
}

void add_doctor(CommandLine& line) {
  add_comparison(line, "doctor",
                 "As diff, then the cause of each wrong step, proved by replaying the step\n"
                 "with the mistake in it on the dump's own values.\n"
                 "Exit code 1 if they diverge, 3 if they cannot be compared.",
                 run_doctor);
}

}  // namespace mainstem::cli
