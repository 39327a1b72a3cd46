#include "cli/block_options.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

struct MlpRow {
  const char* option;
  const char* label;
  bool gated;
  Activation activation;
};

constexpr std::array kMlps = {
    MlpRow{"swiglu", "SwiGLU", true, Activation::kSilu},
    MlpRow{"geglu", "GEGLU (tanh form)", true, Activation::kGeluTanh},
    MlpRow{"geglu-erf", "GEGLU (erf form)", true, Activation::kGeluErf},
    MlpRow{"reglu", "ReGLU", true, Activation::kRelu},
    MlpRow{"gelu", "GELU (tanh form)", false, Activation::kGeluTanh},
    MlpRow{"gelu-erf", "GELU (erf form)", false, Activation::kGeluErf},
    MlpRow{"quick-gelu", "quick GELU", false, Activation::kQuickGelu},
    MlpRow{"silu", "SiLU", false, Activation::kSilu},
    MlpRow{"relu", "ReLU", false, Activation::kRelu},
    MlpRow{"relu-squared", "ReLU²", false, Activation::kReluSquared},
};

const MlpRow& mlp_row(const std::string& option) {
  for (const MlpRow& row : kMlps) {
    if (row.option == option) return row;
  }
  throw internal_error("an MLP that the parser let pass");
}

NormPlacement placement_of(const std::string& text) {
  for (NormPlacement each : {NormPlacement::kPre, NormPlacement::kPost, NormPlacement::kSandwich,
                             NormPlacement::kOutputOnly}) {
    if (name(each) == text) return each;
  }
  throw internal_error("a placement that the parser let pass");
}

}  // namespace

void add_block_options(Command& command, BlockOptions& options) {
  constexpr Command::Limits kSize{1, int64_t{1} << 24};
  command.group("Block");
  command.number("--width", options.width, kSize, "D, width of the stream");
  command.number("--hidden", options.hidden, kSize, "F (default: 2D where gated, else 4D)");
  command.number("--heads", options.heads, kSize, "H (default: 1)");
  command.number("--kv-heads", options.kv_heads, kSize, "K (default: H)");
  command.number("--head-width", options.head_width, kSize, "E (default: D/H)");
  command.choice("--norm", options.norm, {"rms", "layer"},
                 "rms: eps 1e-6 (default), layer: eps 1e-5");
  std::vector<std::string> mlps;
  for (const MlpRow& row : kMlps) mlps.emplace_back(row.option);
  command.choice("--mlp", options.mlp, mlps,
                 "Gated: swiglu (default), geglu, geglu-erf, reglu;\n"
                 "plain: gelu, gelu-erf, quick-gelu, silu, relu,\n"
                 "relu-squared. gelu and geglu: the tanh form",
                 "KIND");
  command.choice("--placement", options.placement, {"pre", "post", "sandwich", "output-only"},
                 "Where the norms stand (default: pre)");
  command.flag("--bias", options.bias, "Biases on every projection");
  command.flag("--rotary", options.rotary, "Rotary positions");
  command.number("--eps", options.eps, "Of the norms, instead of theirs");
  command.flag("--full", options.full,
               "Tokens see all tokens (--causal, the default:\nnot later ones)");
  command.negation("--causal", options.full);
  command.negation("--no-bias", options.bias);
  command.negation("--no-rotary", options.rotary);
}

BlockSpec block_spec(const BlockOptions& options) {
  if (options.width == 0) throw usage_error("--width", "the width of the block's stream", "none");
  if (options.eps < 0 && options.eps != BlockOptions{}.eps) {
    throw usage_error("--eps", "a number of at least 0", fmt::format("{:g}", options.eps));
  }
  const MlpRow& mlp = mlp_row(options.mlp);
  const bool layer = options.norm == "layer";
  BlockSpec spec;
  spec.width = options.width;
  spec.norm = {
      .kind = layer ? NormKind::kLayer : NormKind::kRms, .eps = layer ? 1e-5 : 1e-6, .bias = layer};
  if (options.eps >= 0) spec.norm.eps = options.eps;
  spec.placement = placement_of(options.placement);
  AttentionSpec& attention = spec.attention;
  attention.heads = options.heads;
  attention.kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  if (attention.heads % attention.kv_heads != 0) {
    throw usage_error("--kv-heads", "a divisor of the " + std::to_string(options.heads) + " heads",
                      std::to_string(attention.kv_heads));
  }
  attention.head_width = options.head_width;
  if (options.head_width == 0) {
    if (options.width % options.heads != 0) {
      throw usage_error(
          "--heads",
          "a divisor of the width " + std::to_string(options.width) + ", or --head-width",
          std::to_string(options.heads));
    }
    attention.head_width = options.width / options.heads;
  }
  if (options.full) attention.mask = MaskKind::kFull;
  attention.score_scale = 1 / std::sqrt(static_cast<double>(attention.head_width));
  attention.q_bias = attention.k_bias = attention.v_bias = attention.output_bias = options.bias;
  if (options.rotary) {
    if (attention.head_width % 2 != 0) {
      throw usage_error("--rotary", "an even head width", std::to_string(attention.head_width));
    }
    attention.rotary.emplace().width = attention.head_width;
  }
  spec.mlp = {.hidden = options.hidden > 0 ? options.hidden : options.width * (mlp.gated ? 2 : 4),
              .gated = mlp.gated,
              .activation = mlp.activation,
              .combined = mlp.gated,
              .up_bias = options.bias,
              .down_bias = options.bias};
  return spec;
}

BlockOptions second_block(const BlockOptions& first, const std::vector<std::string>& words,
                          CommonOptions& common) {
  if (words[0].empty()) throw usage_error("--against", "options of a second block", "none");
  BlockOptions second = first;
  CommonOptions more;
  with_context("--against", [&] {
    parse_words(words, [&](Command& command) {
      add_block_options(command, second);
      add_common(command, more, common.compute.c_str());
    });
  });
  common.json |= more.json;
  if (second == first) {
    throw usage_error("--against", "options that make a different block", "the same block")
        .hint("all that follows --against describes the second block");
  }
  return second;
}

std::string describe(const BlockOptions& options) {
  const BlockSpec spec = block_spec(options);
  return fmt::format("{}-norm, {}, {}, D={} H={} K={} E={} F={}{}{}{}{}", options.placement,
                     options.norm == "rms" ? "RMSNorm" : "LayerNorm", mlp_row(options.mlp).label,
                     spec.width, spec.attention.heads, spec.attention.kv_heads,
                     spec.attention.head_width, spec.mlp.hidden, options.bias ? ", biases" : "",
                     options.rotary ? ", rotary" : "", options.full ? ", not causal" : "",
                     options.eps >= 0 ? fmt::format(", eps {:g}", options.eps) : "");
}

}  // namespace mainstem::cli
