#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/number_text.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "cli/output_path.h"
#include "cli/progress.h"
#include "cli/step_table.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/trace_file.h"
#include "cli/trace_input.h"
#include "cli/trace_values.h"
#include "mainstem/check.h"
#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

constexpr size_t kFirstInTable = 3;
constexpr int kLongestName = 12;  // a longer one stands above its row

struct Options {
  CommonOptions common;
  ModelOptions model;
  PromptOptions prompt;
  std::string sites = "*", positions = "all", out, names = "mainstem", mistake;
};

Naming naming_of(const std::string& names) {
  if (names == "hf") return Naming::kHuggingFace;
  if (names == "tl") return Naming::kTransformerLens;
  return names == "ggml" ? Naming::kGgml : Naming::kMainstem;
}

/// The part of the table in which a site stands; of a default SiteId, what comes before the blocks.
std::string section_of(const SiteId& site) {
  const std::string stack = site.stack == Stack::kEncoder   ? "encoder."
                            : site.stack == Stack::kDecoder ? "decoder."
                                                            : "";
  if (site.layer >= 0) return fmt::format("{}blocks.{}", stack, site.layer);
  if (site.site >= Site::kFinalNorm)
    return "after " + (stack.empty() ? "the blocks" : stack + "blocks");
  return stack.empty() ? stack : "before " + stack + "blocks";
}

struct Step {
  Selected selected;
  int axis = -1;
  Shape shape;
  std::vector<AxisPadding> paddings;
  Summary summary = {};
};

class Trace {
 public:
  Trace(const Options& options, const Program& program, std::string_view family, TraceInput input,
        std::string broken_how)
      : options_(options),
        program_(program),
        family_(family),
        input_(std::move(input)),
        broken_how_(std::move(broken_how)) {
    const int64_t tokens = input_.main().tokens();
    positions_ = parse_positions(options.positions, tokens);
    for (const Selected& selected :
         select_sites(program, family, parse_globs(options.sites), naming())) {
      Step step{.selected = selected,
                .axis = query_axis(program, selected),
                .shape = shape_in_pass(program, selected, input_),
                .paddings = paddings(program, selected, input_)};
      head_rows_ |= program.value(selected.value).rows == Rows::kHead;
      if (step.axis >= 0) {
        step.shape[static_cast<size_t>(step.axis)] = positions_.end - positions_.begin;
      }
      for (AxisPadding& padding : step.paddings) {
        if (std::cmp_not_equal(padding.axis, step.axis)) continue;
        for (int64_t& count : padding.counts) count -= positions_.begin;
      }
      steps_.push_back(std::move(step));
    }
    // "last" needs the head for one row only.
    last_only_ = !head_rows_ || (!positions_.all && positions_.begin == tokens - 1);
  }

  void run(const std::shared_ptr<const BoundProgram>& bound) {
    std::optional<TraceFile> file;
    if (!options_.out.empty()) file.emplace(options_.out, plan(), about());
    SessionOptions session_options{.compute = options_.common.compute_mode(),
                                   .threads = options_.common.thread_count(),
                                   .cancel = interrupt_flag()};
    for (const Step& step : steps_) {
      if (!step.selected.is_line) session_options.sites.push_back(step.selected.site);
    }
    Session session(bound, session_options);
    const std::vector<SequenceInput> inputs = input_.add_to(session);
    Progress progress("trace", static_cast<int64_t>(steps_.size()));
    size_t next = 0;
    const auto skip_lines = [&] {
      while (next < steps_.size() && steps_[next].selected.is_line) ++next;
    };
    const TraceSink sink = [&](const TraceEvent& event) {
      check_interrupt();
      skip_lines();
      if (next >= steps_.size() || !(event.site == steps_[next].selected.site)) return;
      Step& step = steps_[next++];
      Tensor keep;
      const bool is_cut = last_only_ && program_.value(step.selected.value).rows == Rows::kHead;
      const TensorView value =
          is_cut ? event.value
                 : cut(event.value, step.axis, positions_.begin, positions_.end, keep);
      step.shape = value.shape();
      step.summary = summarise(value, step.paddings);
      if (file) file->write(step.selected.name, value);
      progress.update(static_cast<int64_t>(next));
    };
    if (last_only_) {
      session.forward(inputs, sink);
    } else {
      session.observe(inputs, sink);
    }
    check_interrupt();
    skip_lines();
    if (next != steps_.size()) throw internal_error("a wanted step did not come");
    if (!file) return;
    for (const NamedTensor& each : companions()) file->write(each.name, each.view);
    file->finish();
    file_summary_ = file->summary();
  }

  std::string json_text() const {
    JsonWriter json;
    json.begin_object(JsonWriter::kLines);
    write_ids(json.key("ids"), input_.encodes() ? input_.encoder() : input_.main());
    if (input_.encodes()) write_ids(json.key("decoder_ids"), input_.main());
    if (!options_.mistake.empty()) {
      json.field("broken", options_.mistake).field("broken_how", broken_how_);
    }
    json.key("steps").begin_array(JsonWriter::kLines);
    for (const Step& step : steps_) {
      if (step.selected.is_line) continue;
      json.begin_object().field("site", step.selected.name);
      if (step.selected.same_as) json.field("same_as", to_string(*step.selected.same_as));
      json.field("shape", step.shape);
      json.field("rms", step.summary.rms);
      write_number(json.key("min"), step, step.summary.minimum);
      write_number(json.key("max"), step, step.summary.maximum);
      json.key("first").begin_array();
      for (double value : step.summary.first) write_number(json, step, value);
      json.end_array().end_object();
    }
    return json.end_array().end_object().text();
  }

  std::string human_text() const {
    const std::string head = broken_line(options_.mistake, broken_how_);
    if (!file_summary_.empty()) return head + file_summary_;
    Table table({{"step"},
                 {"shape"},
                 {"rms", Align::kRight},
                 {"min", Align::kRight},
                 {"max", Align::kRight},
                 {"first values"}});
    std::string heading = section_of({});
    for (const Step& step : steps_) {
      const SiteId& site = step.selected.site;
      // The logits have no stack; they stay where its last steps stand.
      const bool goes_on = site.site == Site::kLogits && heading.starts_with("after");
      if (const std::string section = section_of(site); section != heading && !goes_on) {
        heading = section;
        table.add_heading(shown_heading(site));
      }
      add_row(table, step);
    }
    return head + table.text();
  }

 private:
  Naming naming() const { return naming_of(options_.names); }

  /// The section of a site; a block under the name that it has in the world of the names.
  std::string shown_heading(const SiteId& site) const {
    const std::string block = foreign_block(naming(), program_, family_, site);
    return block.empty() ? section_of(site) : block;
  }

  void add_row(Table& table, const Step& step) const {
    const Selected& selected = step.selected;
    std::string name = selected.name;
    if (name == to_string(selected.site)) name = short_name(selected.site);
    const std::string prefix = shown_heading(selected.site) + ".";
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
    if (selected.is_line) {
      // In another world's naming both names may be the same one.
      const std::string own = short_name(selected.site);
      if (name == own) table.add_line(pad_right(own, 11) + " = " + to_string(*selected.same_as));
      return;
    }
    std::string first;
    const auto& values = step.summary.first;
    for (size_t i = 0; i < std::min(values.size(), kFirstInTable); ++i) {
      first += i > 0 ? " " : "";
      first += step.summary.is_integer ? number_text(values[i], "{:.15g}")
                                       : number_text(values[i], "{:.3g}");
    }
    if (text_width(name) > kLongestName) {
      table.add_line(std::move(name));
      name.clear();
    }
    table.add({std::move(name), shape_text(step.shape), short_number(step.summary.rms),
               short_number(step.summary.minimum), short_number(step.summary.maximum), first});
  }

  static void write_number(JsonWriter& json, const Step& step, double number) {
    step.summary.is_f32 ? json.value(static_cast<float>(number)) : json.value(number);
  }

  /// One list, or of a batch a list of them.
  void write_ids(JsonWriter& json, const PaddedBatch& batch) const {
    if (input_.is_batch()) json.begin_array();
    for (const auto& sequence : batch.sequences()) json.value(sequence);
    if (input_.is_batch()) json.end_array();
  }

  /// What a file holds beside the steps, unless a chosen step gives it.
  std::vector<NamedTensor> companions() const {
    std::vector<NamedTensor> result = input_.companions();
    std::erase_if(result, [&](const NamedTensor& each) {
      return std::any_of(steps_.begin(), steps_.end(),
                         [&](const Step& step) { return step.selected.name == each.name; });
    });
    return result;
  }

  std::vector<TensorPlan> plan() const {
    const DType dtype = options_.common.compute == "f64" ? DType::kF64 : DType::kF32;
    std::vector<TensorPlan> plan;
    for (const Step& step : steps_) {
      if (step.selected.is_line) continue;
      const bool ids =
          program_.step(program_.value(step.selected.value).producer).op == Op::kTokens;
      plan.push_back({step.selected.name, ids ? DType::kI64 : dtype, step.shape});
    }
    for (const NamedTensor& each : companions()) {
      plan.push_back({each.name, each.view.dtype(), each.view.shape()});
    }
    return plan;
  }

  std::map<std::string, std::string> about() const {
    std::map<std::string, std::string> about{{"mainstem", MAINSTEM_VERSION},
                                             {"compute", options_.common.compute},
                                             {"names", options_.names}};
    if (!positions_.all) {
      about["positions"] = fmt::format("{}:{}", positions_.begin, positions_.end);
    }
    if (!options_.mistake.empty()) {
      about["break"] = options_.mistake;
      about["broken_how"] = broken_how_;
    }
    return about;
  }

  const Options& options_;
  const Program& program_;
  std::string_view family_;
  TraceInput input_;
  std::string broken_how_;  ///< what the mistake made on purpose does
  Positions positions_;
  std::vector<Step> steps_;
  bool head_rows_ = false, last_only_ = false;
  std::string file_summary_;
};

int trace_command(const Options& options) {
  check_prompt(options.prompt);
  if (!options.out.empty() && !options.out.ends_with(".safetensors") &&
      !options.out.ends_with(".npz")) {
    throw usage_error("--out", "a name ending in .safetensors or .npz", options.out);
  }
  std::optional<Mistake> mistake;
  if (!options.mistake.empty()) mistake = parse_mistake(options.mistake);
  watch_interrupt();
  const Model model = load_model(options.model, options.prompt.needs_tokenizer());
  if (!options.out.empty()) expect_no_model_file(options.out, model);
  TraceInput input(first_inputs(options.prompt, model));
  std::shared_ptr<const BoundProgram> bound = model.bound();
  std::string broken_how;
  if (mistake) {
    BrokenModel broken = make_mistake(model.program(), model.weights(), *mistake);
    bound = std::make_shared<const BoundProgram>(std::move(broken.program), broken.weights);
    broken_how = std::move(broken.what);
  }
  Trace trace(options, bound->program(), model.family(), std::move(input), std::move(broken_how));
  trace.run(bound);
  print(options.common.json ? trace.json_text() : trace.human_text());
  return 0;
}

}  // namespace

void add_trace(CommandLine& line) {
  Command command =
      line.add("trace", "Every named step of one pass: a table, or with --out the full tensors.");
  auto options = std::make_shared<Options>();
  add_model(command, options->model);
  add_prompt(command, options->prompt, PromptSources::kTextOrBatch);
  add_decoder_tokens(command, options->prompt);
  command.text("--sites", options->sites, "GLOB,...",
               "Steps by name: 'blocks.{0,2}.*,logits'. Where a\n"
               "value has two names (inspect says so), a glob\n"
               "gives it under the first, and a name written out\n"
               "under that name. With --names also those names");
  command.text("--positions", options->positions, "WHICH",
               "Tokens to keep of what has one row per query\n"
               "token (never of k and v, nor of an encoder that a\n"
               "decoder follows): all, last, N or A:B, from 0; -1\n"
               "is the last. In a batch padding counts too, so\n"
               "that last is the last token of each sequence");
  command.text("--out", options->out, "FILE", "Full tensors to F.safetensors or F.npz");
  command.choice("--names", options->names, {"mainstem", "hf", "tl", "ggml"},
                 "Names of transformers' modules, TransformerLens\n"
                 "hooks or llama.cpp nodes; values keep our layout");
  command.text("--break", options->mistake, "ID[@LAYER]",
               "Make a known mistake on purpose\n(mainstem check --break list lists them)");
  add_common(command, options->common, "f32");
  command.action([options] { return trace_command(*options); });
}

}  // namespace mainstem::cli
