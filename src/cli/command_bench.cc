#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <set>

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/text.h"
#include "kernels/cpu_kernels.h"
#include "mainstem/error.h"
#include "mainstem/rng.h"
#include "mainstem/threads.h"

namespace mainstem::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct LimitsOptions {
  CommonOptions common;
};

struct ModelBenchOptions {
  CommonOptions common;
  ModelOptions model;
  int64_t prefill = 512, decode = 64, repeat = 3;
};

int thread_count(const CommonOptions& common) {
  return common.threads > 0 ? common.thread_count() : default_thread_count();
}

double seconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string rate_text(double rate, const char* unit) {
  return rate > 0 ? fmt::format("{:.1f} {}", rate, unit) : "not on this processor";
}

int bench_limits(const LimitsOptions& options) {
  exit_on_interrupt();
  const int threads = thread_count(options.common);
  const kernels::MachineLimits limits = kernels::measure_limits(threads);
  const std::string isa(name(kernels::active_isa()));
  if (options.common.json) {
    const auto maybe = [](double rate) { return rate > 0 ? std::optional(rate) : std::nullopt; };
    JsonWriter json;
    json.begin_object(JsonWriter::kLines).field("threads", threads).field("isa", isa);
    json.field("peak_gflops", limits.f32_gflops).field("peak_int8_gops", maybe(limits.int8_gops));
    json.field("peak_bf16_gflops", maybe(limits.bf16_gflops));
    json.field("peak_read_gb_s", limits.read_gb_s);
    print(json.end_object().text());
    return 0;
  }
  Table table({{""}, {""}});
  table.add({"threads", std::to_string(threads)});
  table.add({"instruction set", isa});
  table.add({"float32 multiply-adds", rate_text(limits.f32_gflops, "GFLOP/s")});
  table.add({"8-bit dot products", rate_text(limits.int8_gops, "Gop/s")});
  table.add({"bfloat16 dot products", rate_text(limits.bf16_gflops, "GFLOP/s")});
  table.add({"memory reading", rate_text(limits.read_gb_s, "GB/s")});
  print(table.text());
  return 0;
}

/// Bytes that every token reads: all weights but tables that only give single rows.
int64_t bytes_per_token(const Model& model) {
  const Program& program = model.program();
  std::set<WeightId> used;
  for (const Step& step : program.steps) {
    if (step.op == Op::kLinear || step.op == Op::kNorm) {
      used.insert(step.weights.begin(), step.weights.end());
    }
  }
  used.erase(kNoId);
  int64_t total = 0;
  for (WeightId id : used) total += stored_bytes(model.weights().at(program.weight(id).name));
  return total;
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1000;  // Linux counts in units of 1024 bytes
}

struct Rates {
  double prefill = 0, decode = 0, load_ms = 0, peak_rss_mb = 0;
};

Rates measure(const ModelBenchOptions& options, const Model& model, Session& session) {
  const int64_t context = model.spec().context_length;
  if (context > 0 && options.prefill + options.decode > context) {
    throw usage_error(
        "--prefill and --decode",
        "at most " + std::to_string(context) + " tokens together, the model's context",
        std::to_string(options.prefill + options.decode));
  }
  std::vector<int64_t> tokens(static_cast<size_t>(options.prefill));
  Generator(1).randint(tokens, 0, model.spec().vocab_size);
  const int64_t sequence = session.add_sequence();
  std::vector<double> prefill, decode;
  Progress progress("bench", options.repeat + 1);
  for (int64_t round = 0; round <= options.repeat; ++round) {  // the first one warms up
    progress.update(round);
    session.reset(sequence);
    const SequenceInput prompt{.sequence = sequence, .tokens = tokens};
    const double prefill_s = seconds([&] { session.forward({&prompt, 1}); });
    const double decode_s = seconds([&] {
      for (int64_t i = 0; i < options.decode; ++i) {
        const SequenceInput next{.sequence = sequence,
                                 .tokens = {tokens[static_cast<size_t>(i % options.prefill)]}};
        session.forward({&next, 1});
      }
    });
    if (round == 0) continue;
    prefill.push_back(static_cast<double>(options.prefill) / prefill_s);
    decode.push_back(static_cast<double>(options.decode) / decode_s);
  }
  return {.prefill = median(prefill), .decode = median(decode), .peak_rss_mb = peak_rss_mb()};
}

int bench_model(const ModelBenchOptions& options) {
  exit_on_interrupt();
  const auto start = Clock::now();
  const Model model = load_model(options.model, false);
  Session session(model.bound(), {.compute = options.common.compute_mode(),
                                  .threads = options.common.thread_count()});
  const double load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  Rates rates = measure(options, model, session);
  rates.load_ms = load_ms;
  const int threads = thread_count(options.common);
  const double read = static_cast<double>(bytes_per_token(model)) * rates.decode / 1e9;
  const double peak_read = kernels::measure_limits(threads).read_gb_s;
  if (options.common.json) {
    JsonWriter json;
    json.begin_object(JsonWriter::kLines).field("prefill_tok_s", rates.prefill);
    json.field("decode_tok_s", rates.decode).field("read_gb_s", read);
    json.field("peak_read_gb_s", peak_read).field("load_ms", rates.load_ms);
    json.field("peak_rss_mb", rates.peak_rss_mb).field("threads", threads);
    json.field("compute", options.common.compute)
        .field("isa", std::string(name(kernels::active_isa())));
    json.field("prefill", options.prefill).field("decode", options.decode);
    json.field("repeat", options.repeat);
    print(json.end_object().text());
    return 0;
  }
  Table table({{""}, {""}});
  const auto rate = [](double per_second, int64_t tokens) {
    return fmt::format("{:.1f} tok/s ({})", per_second, count_text(tokens, "token"));
  };
  table.add({"prefill", rate(rates.prefill, options.prefill)});
  table.add({"decode", rate(rates.decode, options.decode)});
  table.add({"weights read", fmt::format("{:.1f} GB/s, {:.0f} % of the measured peak {:.1f}", read,
                                         100 * read / peak_read, peak_read)});
  table.add({"load", fmt::format("{:.0f} ms", rates.load_ms)});
  table.add({"peak memory", fmt::format("{:.0f} MB", rates.peak_rss_mb)});
  table.add(
      {"with", fmt::format("{}, {}, --compute {}, median of {}", count_text(threads, "thread"),
                           name(kernels::active_isa()), options.common.compute, options.repeat)});
  print(table.text());
  return 0;
}

}  // namespace

void add_bench(CommandLine& line) {
  Command bench = line.add("bench", "Speed, measured against this machine's limits.");

  Command limits =
      bench.subcommand("limits", "The limits themselves: arithmetic and memory reading.");
  auto limits_options = std::make_shared<LimitsOptions>();
  add_common(limits, limits_options->common, "fast");
  limits.action([limits_options] { return bench_limits(*limits_options); });

  Command model = bench.subcommand("model", "Prefill and decode of a model.");
  auto options = std::make_shared<ModelBenchOptions>();
  add_model(model, options->model);
  constexpr Command::Limits kTokens{1, int64_t{1} << 30};
  model.number("--prefill", options->prefill, kTokens, "Tokens of the prompt (default: 512)");
  model.number("--decode", options->decode, kTokens, "Tokens generated (default: 64)");
  model.number("--repeat", options->repeat, {1, 1000},
               "Repetitions, their median counts (default: 3)");
  add_common(model, options->common, "fast");
  model.action([options] { return bench_model(*options); });
}

}  // namespace mainstem::cli
