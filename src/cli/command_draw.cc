#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/arguments.h"
#include "cli/block_options.h"
#include "cli/console.h"
#include "cli/json_writer.h"
#include "cli/output_path.h"
#include "cli/spec_json.h"
#include "io/atomic_file.h"
#include "mainstem/draw.h"
#include "mainstem/error.h"
#include "mainstem/presets.h"

namespace mainstem::cli {
namespace {

struct Options {
  CommonOptions common;
  ModelOptions model;
  std::string preset;
  bool norm_given = false;
  bool is_block = false;
  BlockOptions block;
  std::vector<std::string> against;
  int64_t layer = 0;
  bool text = false;
  std::string out;
};

/// What is drawn, and what the user calls it.
struct Source {
  Program program;
  std::string title;
};

Source block_source(const BlockOptions& options) {
  return {build_block_program(block_spec(options)), describe(options)};
}

Source model_source(const Options& options) {
  const Model model = load_model(options.model, false);
  if (!options.out.empty()) expect_no_model_file(options.out, model);
  const std::string file = std::filesystem::path(options.model.path).lexically_normal().string();
  const std::string name =
      std::filesystem::path(file.substr(0, file.find_last_not_of('/') + 1)).filename().string();
  return {model.program(), fmt::format("{}, block {}", name, options.layer)};
}

/// --norm counts here only where it was given.
Source preset_source(const Options& options) {
  const std::string norm = options.norm_given ? options.block.norm : std::string();
  const Preset preset = find_preset(options.preset, norm);
  return {build_program(preset.spec), fmt::format("{}, block {}", preset.name, options.layer)};
}

/// One line per way of saying what to draw.
Source source_of(const Options& options) {
  const int subjects =
      int{!options.model.path.empty()} + int{!options.preset.empty()} + int{options.is_block};
  if (subjects != 1) {
    throw usage_error("draw", "one of MODEL, --family NAME and --block",
                      subjects == 0 ? "none" : "more than one");
  }
  if (options.is_block) return block_source(options.block);
  if (!options.preset.empty()) return preset_source(options);
  return model_source(options);
}

/// "0-4,6-10" for each group of equal blocks that `layer` is not in; layers of `stack`.
std::vector<std::string> other_kinds(const StackSpec& stack, int64_t layer) {
  std::vector<std::string> others;
  for (const BlockGroup& group : group_blocks(stack)) {
    const auto& layers = group.layers;
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) {
      others.push_back(layers_text(layers));
    }
  }
  return others;
}

void note_other_kinds(const ModelSpec& spec, int64_t layer) {
  const auto say = [&](const StackSpec& stack, const char* which) {
    for (const std::string& layers : other_kinds(stack, layer)) {
      note(fmt::format("{}blocks {} are of another kind: --layer {}", which, layers,
                       layers.substr(0, layers.find_first_of(",-"))));
    }
  };
  if (spec.encoder) say(*spec.encoder, "encoder ");
  say(spec.stack, spec.encoder ? "decoder " : "");
}

void write_file(const std::string& path, const std::string& content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::string json_text(const Options& options, const Source& source, const std::string& drawing) {
  JsonWriter json;
  json.begin_object(JsonWriter::kLines).field("title", source.title);
  json.field("layer", options.layer);
  const auto write_kinds = [&](const char* key, const StackSpec& stack) {
    json.key(key).begin_array();
    for (const BlockGroup& group : group_blocks(stack)) json.value(group.layers);
    json.end_array();
  };
  const ModelSpec& spec = source.program.spec;
  write_kinds("kinds", spec.stack);
  if (spec.encoder) write_kinds("encoder_kinds", *spec.encoder);
  if (options.out.empty()) {
    json.field(options.text ? "text" : "svg", drawing);
  } else {
    json.field("out", options.out);
  }
  return json.end_object().text();
}

int draw(Options& options) {
  std::optional<Source> second;
  if (!options.against.empty()) {
    if (!options.is_block) throw usage_error("--against", "--block before it", "none");
    second = block_source(second_block(options.block, options.against, options.common));
  }
  const Source source = source_of(options);
  const BlockView view{source.program, static_cast<int>(options.layer), source.title};
  std::string drawing;
  if (second) {
    const BlockView other{second->program, 0, second->title};
    drawing = options.text ? draw_text(view, other) : draw_svg(view, other);
  } else {
    drawing = options.text ? draw_text(view) : draw_svg(view);
  }
  if (!options.out.empty()) write_file(options.out, drawing);
  if (options.common.json) {
    print(json_text(options, source, drawing));
  } else if (options.out.empty()) {
    print(drawing);
  }
  note_other_kinds(source.program.spec, options.layer);
  return 0;
}

}  // namespace

void add_draw(CommandLine& line, const std::vector<std::string>& against) {
  Command command =
      line.add("draw",
               "The block's diagram as SVG, from its program: the residual stream, the norms,\n"
               "attention and the MLP with names, shapes and formulas. All that follows\n"
               "--against describes a second block, the rest as in the first; both are drawn\n"
               "side by side, and the steps that differ are marked:\n"
               "  mainstem draw --block --width 512 --out b.svg --against --placement post");
  auto options = std::make_shared<Options>();
  options->against = against;
  add_model(command, options->model, ModelNeed::kOptional);
  command.text("--family", options->preset, "NAME",
               "A published size, as llama-3-8b (inspect\n--family list: all names)");
  command.number("--layer", options->layer, {0, int64_t{1} << 20},
                 "Which block of the model (default: 0)");
  command.text("--out", options->out, "FILE", "Default: standard output");
  command.flag("--text", options->text, "As text of at most 80 columns");
  command.flag("--block", options->is_block, "One block by the options below");
  add_block_options(command, options->block);
  add_common(command, options->common, "f32");
  command.action([options, command] {
    options->norm_given = command.given("--norm");
    return draw(*options);
  });
}

}  // namespace mainstem::cli
