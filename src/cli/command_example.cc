#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/number_text.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/json_writer.h"
#include "cli/text.h"
#include "mainstem/check.h"
#include "mainstem/error.h"
#include "mainstem/example.h"

namespace mainstem::cli {
namespace {

constexpr int64_t kValuesPerLine = 8;
constexpr std::string_view kBlock = "blocks.0.";

struct Options {
  CommonOptions common;
  bool causal = false, markdown = false;
  std::string norm = "rms", mlp = "swiglu", placement = "pre", mistake;
  std::string broken_how = {};  ///< what the mistake does, once it is made
  uint64_t seed = 42;
};

ExampleOptions example_options(const Options& options) {
  ExampleOptions result;
  result.seed = options.seed;
  result.causal = options.causal;
  if (options.norm == "layer") result.norm = NormKind::kLayer;
  if (options.mlp == "gelu") result.mlp = ExampleMlp::kGeluTanh;
  if (options.mlp == "gelu-erf") result.mlp = ExampleMlp::kGeluErf;
  if (options.placement == "post") result.placement = NormPlacement::kPost;
  return result;
}

/// What the block is; a part that a mistake makes untrue is left out.
std::string title(const Options& options, const BlockSpec& spec) {
  std::string text =
      fmt::format("One block, B=1 T=4 D=8 H=1 F={}, seed {}", spec.mlp.hidden, options.seed);
  const std::string mistake = options.mistake.substr(0, options.mistake.find('@'));
  const auto add = [&](const std::string& part, std::initializer_list<std::string_view> untrue) {
    if (std::find(untrue.begin(), untrue.end(), mistake) != untrue.end()) return;
    text += (text.find(':') == std::string::npos ? ": " : ", ") + part;
  };
  std::string mlp = "SwiGLU";
  if (options.mlp == "gelu") mlp = "GELU (tanh form)";
  if (options.mlp == "gelu-erf") mlp = "GELU (erf form)";
  add(options.placement + "-norm", {"norm.placement"});
  add(options.norm == "rms" ? "RMSNorm" : "LayerNorm", {"norm.missing", "norm.kind"});
  add(mlp, {"mlp.activation"});
  add(options.causal ? "causal" : "not causal", {"attn.causal_mask"});
  return text;
}

/// Which drawn tensors a reader who repeats the draws would not expect: the plain MLPs' matrices
/// come after those of SwiGLU.
std::string order_of_draws(const Options& options) {
  if (options.mlp == "swiglu") return {};
  return "drawn in this order: X, W_Q, W_K, W_V, then W_swiglu [8,32] and W_mlp_out [16,8],\n"
         "which this block does not use, then W1_gelu [8,32] and W2_gelu [32,8]\n";
}

/// Rows of four decimals, at most eight values on a line.
std::string matrix_text(const Tensor& tensor, int64_t most_rows) {
  const std::vector<double> values = to_f64(tensor.view());
  const int64_t columns = tensor.view().columns();
  std::string text;
  for (int64_t row = 0; row < std::min(tensor.view().rows(), most_rows); ++row) {
    for (int64_t begin = 0; begin < columns; begin += kValuesPerLine) {
      text += begin == 0 ? fmt::format("  {:>2} ", row) : "     ";
      for (int64_t c = begin; c < std::min(columns, begin + kValuesPerLine); ++c) {
        text += number_text(values[static_cast<size_t>(row * columns + c)], "{:>9.4f}");
      }
      text += "\n";
    }
  }
  return text;
}

std::string json_text(const Options& options, const std::vector<ExampleStep>& steps) {
  JsonWriter json;
  json.begin_object(JsonWriter::kLines).field("seed", options.seed);
  json.field("causal", options.causal).field("norm", options.norm).field("mlp", options.mlp);
  json.field("placement", options.placement);
  if (!options.mistake.empty()) {
    json.field("broken", options.mistake).field("broken_how", options.broken_how);
  }
  json.key("drawn").begin_array();
  for (const char* name : {"X", "W_Q", "W_K", "W_V", "W_swiglu", "W_mlp_out"}) json.value(name);
  if (options.mlp != "swiglu") json.value("W1_gelu").value("W2_gelu");
  json.end_array();
  json.key("steps").begin_array(JsonWriter::kLines);
  for (const ExampleStep& step : steps) {
    json.begin_object().field("site", step.site).field("name", step.name);
    if (step.is_weight) json.field("weight", true);
    json.field("shape", step.value.shape()).field("formula", step.formula).key("values");
    if (step.value.dtype() == DType::kF64) {
      json.value(step.value.as<double>());
    } else {
      json.value(step.value.as<float>());
    }
    json.end_object();
  }
  return json.end_array().end_object().text();
}

std::string human_text(const Options& options, const BlockSpec& spec,
                       const std::vector<ExampleStep>& steps) {
  std::string text = styled(Style::kBold, title(options, spec)) + "\n";
  text += options.norm == "rms" ? "γ = 1" : "γ = 1, β = 0";
  text += "; weights are used as x @ W, of each only the first row is shown\n";
  text += order_of_draws(options) + broken_line(options.mistake, options.broken_how);
  for (const ExampleStep& step : steps) {
    const bool is_joined = step.name == "x_proj" && spec.mlp.gated;
    const std::string head = fmt::format("{} {}", step.name, shape_text(step.value.shape()));
    const std::string site = step.is_weight || is_joined ? "" : step.site.substr(kBlock.size());
    text += "\n" + styled(Style::kBold, pad_right(head, 22)) + " " +
            styled(Style::kDim, pad_right(site, 11)) + " " + step.formula + "\n";
    if (is_joined) {
      text += "     x_gate and x_val side by side\n";
    } else {
      text += matrix_text(step.value, step.is_weight ? 1 : step.value.view().rows());
    }
  }
  return text;
}

std::string markdown_text(const Options& options, const BlockSpec& spec,
                          const std::vector<ExampleStep>& steps) {
  std::string text = title(options, spec) + "\n";
  for (const std::string& more :
       {order_of_draws(options), broken_line(options.mistake, options.broken_how)}) {
    if (!more.empty()) text += "\n" + more;
  }
  text += "\n| tensor | site | shape | formula |\n|---|---|---|---|\n";
  const auto shape = [](const ExampleStep& step) { return to_string(step.value.shape()); };
  for (const ExampleStep& step : steps) {
    const std::string site = step.is_weight ? "" : "`" + step.site + "`";
    text += fmt::format("| {} | {} | {} | {} |\n", step.name, site, shape(step), step.formula);
  }
  for (const ExampleStep& step : steps) {
    text += fmt::format("\n**{}** {} = {}\n\n```text\n{}```\n", step.name, shape(step),
                        step.formula, matrix_text(step.value, step.value.view().rows()));
  }
  return text;
}

/// A mistake that this block's numbers cannot show would look like the right block.
void expect_change(const std::vector<ExampleStep>& right, const std::vector<ExampleStep>& wrong,
                   const Options& options) {
  const bool same =
      std::equal(right.begin(), right.end(), wrong.begin(), wrong.end(),
                 [](const ExampleStep& a, const ExampleStep& b) {
                   return a.site == b.site && to_f64(a.value.view()) == to_f64(b.value.view());
                 });
  if (!same) return;
  throw usage_error("mistake " + options.mistake, "a block that it changes",
                    "the same values at every step")
      .hint(options.mistake.starts_with("norm.weight") ? "all norm weights of the example are 1"
                                                       : "try another variant of the example");
}

int example(Options options) {
  Example block = make_example(example_options(options));
  const auto run_steps = [&] {
    return run_example(block, options.common.compute_mode(),
                       options.common.threads > 0 ? options.common.thread_count() : 1);
  };
  std::vector<ExampleStep> steps = run_steps();
  if (!options.mistake.empty()) {
    BrokenModel broken = make_mistake(block.program, block.sources, parse_mistake(options.mistake));
    block.program = std::move(broken.program);
    block.sources = std::move(broken.weights);
    options.broken_how = std::move(broken.what);
    std::vector<ExampleStep> wrong = run_steps();
    expect_change(steps, wrong, options);
    steps = std::move(wrong);
  }
  if (options.common.json) {
    print(json_text(options, steps));
  } else if (options.markdown) {
    print(markdown_text(options, block.spec, steps));
  } else {
    print(human_text(options, block.spec, steps));
  }
  return 0;
}

}  // namespace

void add_example(CommandLine& line) {
  Command command = line.add("example",
                             "A worked example to follow by hand: every step of one block.\n"
                             "Each with shape, formula and values.");
  auto options = std::make_shared<Options>();
  command.flag("--causal", options->causal, "Tokens see themselves and those before them");
  command.choice("--norm", options->norm, {"rms", "layer"},
                 "rms: eps 1e-6 (default), layer: eps 1e-5");
  command.choice("--mlp", options->mlp, {"swiglu", "gelu", "gelu-erf"},
                 "Default: swiglu; gelu is the tanh form");
  command.choice("--placement", options->placement, {"pre", "post"},
                 "x + f(norm(x)) (default) or norm(x + f(x))");
  command.number("--seed", options->seed, "As torch.manual_seed (default: 42)");
  command.flag("--markdown", options->markdown, "Print it for a document");
  command.text("--break", options->mistake, "ID",
               "Make a known mistake on purpose\n(mainstem check --break list lists them)");
  add_common(command, options->common, "f32");
  command.exclude("--markdown", "--json");
  command.action([options] { return example(*options); });
}

}  // namespace mainstem::cli
