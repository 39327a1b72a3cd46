#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/inspect_block.h"
#include "cli/json_writer.h"
#include "cli/spec_json.h"
#include "cli/step_table.h"
#include "cli/table.h"
#include "cli/text.h"
#include "mainstem/error.h"
#include "mainstem/presets.h"

namespace mainstem::cli {
namespace {

constexpr int64_t kCacheValueBytes = 4;  // the cache holds float32

struct Options {
  CommonOptions common;
  ModelOptions model;
  int64_t context = 0;
  std::string preset;
  bool norm_given = false;
  bool is_block = false;
  BlockOptions block;
  std::vector<std::string> against;
};

/// "210 q4_1, 61 f32", largest share first.
std::string weight_types(const Model& model) {
  std::map<DType, std::pair<int64_t, int64_t>> types;  // bytes, count
  for (const auto& [name, source] : model.weights()) {
    auto& [bytes, count] = types[source.tensor.dtype()];
    bytes += stored_bytes(source);
    ++count;
  }
  std::vector<std::pair<int64_t, std::string>> parts;
  for (const auto& [dtype, share] : types) {
    parts.emplace_back(-share.first, fmt::format("{} {}", share.second, name(dtype)));
  }
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const auto& [bytes, part] : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string norm_text(const NormSpec& norm) {
  return fmt::format(
      "{}, eps {:g}{}{}", norm.kind == NormKind::kRms ? "RMSNorm" : "LayerNorm", norm.eps,
      norm.bias ? ", bias" : "",
      norm.weight_offset != 0 ? fmt::format(", weight + {:g}", norm.weight_offset) : "");
}

std::string attention_text(const AttentionSpec& attention) {
  std::string positions = "no rotary positions";
  if (attention.rotary) {
    const RotarySpec& rotary = *attention.rotary;
    positions = fmt::format("rotary {} over {} channels, base {:g}", name(rotary.pairing),
                            rotary.width, rotary.base);
    if (rotary.scaling.kind != RotaryScalingKind::kNone) {
      positions += fmt::format(", {} scaling", name(rotary.scaling.kind));
    }
  }
  return fmt::format(
      "{}{}; {}{}", name(attention.mask),
      attention.mask == MaskKind::kWindow ? fmt::format(" of {}", attention.window) : "", positions,
      attention.qk_norm ? "; q/k norm" : "");
}

void add_block_facts(Table& table, const BlockGroup& group, const std::string& stack) {
  const BlockSpec& block = *group.block;
  const AttentionSpec& attention = block.attention;
  table.add({stack + "blocks " + layers_text(group.layers),
             fmt::format("D={} H={} K={} E={} F={}", block.width, attention.heads,
                         attention.kv_heads, attention.head_width, block.mlp.hidden)});
  table.add({"  norm", fmt::format("{}; {}-norm, {}", norm_text(block.norm), name(block.placement),
                                   name(block.residual))});
  table.add({"  attention", attention_text(attention)});
  if (block.cross_attention) {
    table.add({"  cross-attention",
               fmt::format("H={} K={} E={}", block.cross_attention->heads,
                           block.cross_attention->kv_heads, block.cross_attention->head_width)});
  }
  table.add({"  MLP", fmt::format("{}, {}{}", block.mlp.gated ? "gated" : "plain",
                                  name(block.mlp.activation),
                                  block.mlp.combined ? ", one combined matrix" : "")});
}

void add_stack_facts(Table& table, const StackSpec& stack, const std::string& stack_name) {
  if (stack.positions != PositionKind::kNone) {
    table.add({stack_name + "positions", std::string(name(stack.positions))});
  }
  for (const BlockGroup& group : group_blocks(stack)) add_block_facts(table, group, stack_name);
  if (stack.final_norm) table.add({stack_name + "final norm", norm_text(*stack.final_norm)});
}

/// What is shown of a model or of a preset.
struct Subject {
  std::string title, family;
  const Program* program = nullptr;
  std::string weights;  ///< as text
  int64_t weight_bytes = 0;
  std::vector<std::string> notes, ignored;
};

std::string facts(const Subject& subject, const ProgramCounts& counts, int64_t context) {
  const ModelSpec& spec = subject.program->spec;
  Table table({{""}, {""}});
  table.add({"family", subject.family});
  const char* once = spec.shared_token_table ? " (the shared token table once)"
                     : spec.head.tied        ? " (the tied token table once)"
                                             : "";
  table.add({"parameters", with_commas(counts.parameters) + once});
  table.add(
      {"weights", byte_size(static_cast<double>(subject.weight_bytes)) + ": " + subject.weights});
  table.add({"FLOPs", fmt::format("{} per token{} with {} cached, head included",
                                  with_commas(2 * counts.multiply_adds),
                                  spec.encoder ? " of encoder and decoder" : "", context)});
  table.add({"cache", fmt::format("{} bytes per token (float32)",
                                  with_commas(counts.kv_values_per_token * kCacheValueBytes))});
  table.add({"context", spec.context_length > 0 ? with_commas(spec.context_length) + " tokens"
                                                : "not stated"});
  table.add({"vocabulary", with_commas(spec.vocab_size)});
  if (spec.encoder) add_stack_facts(table, *spec.encoder, "encoder ");
  add_stack_facts(table, spec.stack, spec.encoder ? "decoder " : "");
  table.add({"head", spec.head.kind == HeadKind::kNone ? "none"
                     : spec.head.tied                  ? "tied to the token table"
                                                       : "a matrix of its own"});
  for (const std::string& text : subject.notes) table.add({"note", text});
  for (const std::string& text : subject.ignored) table.add({"not used", text});
  return table.text();
}

/// The first block of each kind, those that equal it, and its heading.
struct ShownBlock {
  Stack stack = Stack::kOnly;
  std::vector<int64_t> layers;
  std::string heading;
};

std::vector<ShownBlock> shown_blocks(const ModelSpec& spec) {
  std::vector<ShownBlock> shown;
  const auto add = [&](const StackSpec& stack, Stack which, const std::string& prefix) {
    for (const BlockGroup& group : group_blocks(stack)) {
      shown.push_back({which, group.layers, prefix + "blocks.N, N = " + layers_text(group.layers)});
    }
  };
  if (spec.encoder) add(*spec.encoder, Stack::kEncoder, "encoder.");
  add(spec.stack, spec.encoder ? Stack::kDecoder : Stack::kOnly, spec.encoder ? "decoder." : "");
  return shown;
}

/// The formula of one block as it stands for all equal blocks `layers`.
std::string formula_of_group(const Program& program, const StepRow& row,
                             const std::vector<int64_t>& layers) {
  const SiteId& first = first_name(program, row.value);
  if (row.site.site != Site::kResidPre || first.layer == row.site.layer) {
    return formula_text(program, row);
  }
  const auto outside = [&](Site site) { return to_string({site, -1, row.site.stack}); };
  if (layers.back() == 0) return "= " + outside(Site::kEmbed);
  std::string before = outside(Site::kResidPost);
  before.insert(before.rfind('.') + 1, "blocks.N-1.");
  return "= " + before + (layers.front() == 0 ? " (block 0: " + outside(Site::kEmbed) + ")" : "");
}

/// One block of each kind, and everything outside the blocks.
std::string step_text(const Program& program) {
  const std::vector<ShownBlock> shown = shown_blocks(program.spec);
  const std::vector<int64_t> none = {-1};
  Table table({{"step"}, {"shape"}, {"size"}, {"formula"}});
  SiteId last{.stack = program.sites.front().site.stack};
  for (const StepRow& row : all_names(program)) {
    const SiteId& site = row.site;
    const auto group = std::find_if(shown.begin(), shown.end(), [&](const ShownBlock& each) {
      return each.layers[0] == site.layer && each.stack == site.stack;
    });
    if (site.layer >= 0 && group == shown.end()) continue;
    if (site.layer != last.layer || (site.stack != last.stack && site.site != Site::kLogits)) {
      const bool decoder_begins = site.layer < 0 && site.site < Site::kFinalNorm;
      table.add_heading(site.layer >= 0  ? group->heading
                        : decoder_begins ? "the decoder's embedding"
                                         : "after the blocks");
    }
    last = site;
    const Value& value = program.value(row.value);
    table.add({short_name(site), dims_letters(value), dims_numbers(value),
               formula_of_group(program, row, site.layer >= 0 ? group->layers : none)});
  }
  return table.text();
}

void write_sites(JsonWriter& json, const Program& program) {
  json.key("sites").begin_array(JsonWriter::kLines);
  for (const StepRow& row : all_names(program)) write_step(json, program, row);
  json.end_array();
}

void show(const Subject& subject, const Options& options) {
  const Program& program = *subject.program;
  const ProgramCounts counts = count(program, options.context);
  if (!options.common.json) {
    print(styled(Style::kBold, subject.title) + "\n" + facts(subject, counts, options.context) +
          "\n" + step_text(program));
    return;
  }
  JsonWriter json;
  json.begin_object(JsonWriter::kLines).field("family", subject.family);
  json.field("parameters", counts.parameters).field("flops_per_token", 2 * counts.multiply_adds);
  json.field("context", options.context).field("weight_bytes", subject.weight_bytes);
  json.field("kv_bytes_per_token", counts.kv_values_per_token * kCacheValueBytes);
  json.field("notes", subject.notes).field("ignored_weights", subject.ignored).key("spec");
  write_spec(json, program.spec);
  write_sites(json, program);
  print(json.end_object().text());
}

void inspect_model(const Options& options) {
  const Model model = load_model(options.model, false);
  show({.title = options.model.path,
        .family = model.family(),
        .program = &model.program(),
        .weights = weight_types(model),
        .weight_bytes = model.bound()->weight_bytes(),
        .notes = model.notes(),
        .ignored = model.ignored_weights()},
       options);
}

void list_presets(bool as_json) {
  JsonWriter json;
  json.begin_object(JsonWriter::kLines).key("families").begin_array(JsonWriter::kLines);
  Table table({{"name"}, {"family"}, {"parameters", Align::kRight}});
  for (const std::string& name : preset_names()) {
    const Preset preset = find_preset(name);
    const int64_t parameters = count(build_program(preset.spec), 0).parameters;
    table.add({name, preset.family, with_commas(parameters)});
    json.begin_object().field("name", name).field("family", preset.family);
    json.field("parameters", parameters).end_object();
  }
  json.end_array();
  print(as_json ? json.end_object().text() : table.text());
}

/// --norm counts here only where it was given.
void inspect_preset(const Options& options) {
  if (options.preset == "list") return list_presets(options.common.json);
  const std::string norm = options.norm_given ? options.block.norm : std::string();
  const Preset preset = find_preset(options.preset, norm);
  const Program program = build_program(preset.spec);
  Subject subject{.title = preset.name,
                  .family = preset.family,
                  .program = &program,
                  .weights = "at 2 bytes each (bf16); none are loaded",
                  .weight_bytes = count(program, 0).parameters * 2,
                  .notes = {"from " + preset.source},
                  .ignored = {}};
  if (!preset.note.empty()) subject.notes.push_back(preset.note);
  show(subject, options);
}

int inspect(Options& options) {
  const int subjects =
      int{!options.model.path.empty()} + int{!options.preset.empty()} + int{options.is_block};
  if (subjects != 1) {
    throw usage_error("inspect", "one of MODEL, --family NAME and --block",
                      subjects == 0 ? "none" : "more than one");
  }
  if (!options.is_block) {
    if (!options.against.empty()) throw usage_error("--against", "--block before it", "none");
    if (options.preset.empty()) {
      inspect_model(options);
    } else {
      inspect_preset(options);
    }
    return 0;
  }
  std::optional<BlockOptions> second;
  if (!options.against.empty()) {
    second = second_block(options.block, options.against, options.common);
  }
  print(options.common.json ? block_json(options.block, second, options.context)
                            : block_text(options.block, second, options.context));
  return 0;
}

}  // namespace

void add_inspect(CommandLine& line, const std::vector<std::string>& against) {
  Command command =
      line.add("inspect",
               "What a model, a published size or a block is: parameters, FLOPs, shapes,\n"
               "formulas. --family describes a size without its weights. --block\n"
               "describes one block by its options. All that follows --against describes a\n"
               "second one, the rest as in the first, and the steps that differ are listed:\n"
               "  mainstem inspect --block --width 512 --against --norm layer --mlp gelu");
  auto options = std::make_shared<Options>();
  options->against = against;
  add_model(command, options->model, ModelNeed::kOptional);
  command.number("--context", options->context, {0, int64_t{1} << 40},
                 "Cached tokens that the FLOPs count (default: 0)");
  command.text("--family", options->preset, "NAME",
               "A published size, as llama-3-8b (\"list\": all names)");
  command.flag("--block", options->is_block, "One block by the options below");
  add_block_options(command, options->block);
  add_common(command, options->common, "f32");
  command.action([options, command] {
    options->norm_given = command.given("--norm");
    return inspect(*options);
  });
}

}  // namespace mainstem::cli
