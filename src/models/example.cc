#include "mainstem/example.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "mainstem/error.h"
#include "mainstem/rng.h"

namespace mainstem {
namespace {

constexpr int64_t kTokens = 4, kWidth = 8, kGatedHidden = 16, kPlainHidden = 32;

Tensor draw(Generator& generator, Shape shape) {
  Tensor tensor(DType::kF32, std::move(shape));
  generator.randn({tensor.data<float>(), static_cast<size_t>(tensor.count())});
  return tensor;
}

/// Columns [begin, end) of a matrix.
Tensor columns(const Tensor& matrix, int64_t begin, int64_t end) {
  const int64_t rows = matrix.shape()[0], width = matrix.shape()[1];
  Tensor part(DType::kF32, {rows, end - begin});
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(matrix.as<float>().data() + row * width + begin, end - begin,
                part.data<float>() + row * (end - begin));
  }
  return part;
}

WeightSource source_of(Tensor tensor, bool transposed) {
  auto owner = std::make_shared<const Tensor>(std::move(tensor));
  return {.tensor = owner->view(), .row_order = {}, .transposed = transposed, .keep_alive = owner};
}

BlockSpec example_spec(const ExampleOptions& options) {
  if (options.placement != NormPlacement::kPre && options.placement != NormPlacement::kPost) {
    throw usage_error("the example's placement", "pre or post",
                      std::string(name(options.placement)));
  }
  const bool layer = options.norm == NormKind::kLayer;
  const bool gated = options.mlp == ExampleMlp::kSwiGlu;
  BlockSpec spec;
  spec.width = kWidth;
  spec.norm = {.kind = options.norm, .eps = layer ? 1e-5 : 1e-6, .bias = layer};
  spec.placement = options.placement;
  spec.attention.heads = spec.attention.kv_heads = 1;
  spec.attention.head_width = kWidth;
  spec.attention.output_projection = false;
  spec.attention.mask = options.causal ? MaskKind::kCausal : MaskKind::kFull;
  spec.attention.score_scale = 1 / std::sqrt(static_cast<double>(kWidth));
  spec.mlp.hidden = gated ? kGatedHidden : kPlainHidden;
  spec.mlp.gated = spec.mlp.combined = gated;
  switch (options.mlp) {
    case ExampleMlp::kSwiGlu:
      spec.mlp.activation = Activation::kSilu;
      break;
    case ExampleMlp::kGeluTanh:
      spec.mlp.activation = Activation::kGeluTanh;
      break;
    case ExampleMlp::kGeluErf:
      spec.mlp.activation = Activation::kGeluErf;
      break;
  }
  return spec;
}

/// The example's own names of the sites and, behind "Wᵀ" in a formula, of the weights.
std::string own_name(std::string_view site, bool gated) {
  static const std::map<std::string_view, std::string_view> kNames = {{"resid_pre", "X"},
                                                                      {"attn_norm", "X_norm"},
                                                                      {"q", "Q"},
                                                                      {"k", "K"},
                                                                      {"v", "V"},
                                                                      {"pattern", "attn_weights"},
                                                                      {"attn_mix", "attn_out"},
                                                                      {"resid_mid", "X1"},
                                                                      {"mlp_norm", "X1_norm"},
                                                                      {"mlp_gate", "x_gate"},
                                                                      {"mlp_value", "x_val"},
                                                                      {"mlp_pre", "x_proj"},
                                                                      {"mlp_act", "x_act"},
                                                                      {"mlp_proj", "mlp_out"},
                                                                      {"resid_post", "X2"}};
  if (site == "mlp_hidden") return gated ? "x_swish" : "x_act";
  const auto found = kNames.find(site);
  return std::string(found == kNames.end() ? site : found->second);
}

std::string weight_name(Site site, bool gated) {
  switch (site) {
    case Site::kQ:
      return "W_Q";
    case Site::kK:
      return "W_K";
    case Site::kV:
      return "W_V";
    case Site::kMlpGate:
      return "W_swiglu, the first half";
    case Site::kMlpValue:
      return "W_swiglu, the second half";
    case Site::kMlpPre:
      return "W1_gelu";
    case Site::kMlpProj:
      return gated ? "W_mlp_out" : "W2_gelu";
    default:
      return "W";
  }
}

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The program's formula in the example's names.
std::string own_formula(std::string_view formula, Site site, bool gated) {
  std::string text;
  for (size_t i = 0; i < formula.size();) {
    if (!is_name_char(formula[i])) {
      text += formula[i++];
      continue;
    }
    size_t end = i;
    while (end < formula.size() && is_name_char(formula[end])) ++end;
    text += own_name(formula.substr(i, end - i), gated);
    i = end;
  }
  constexpr std::string_view kProduct = " · Wᵀ";
  if (const size_t at = text.find(kProduct); at != std::string::npos) {
    text.replace(at, kProduct.size(), " @ " + weight_name(site, gated));
  }
  return text;
}

/// [1,4,1,8] and [1,1,4,4] without the one head.
Tensor without_head(const TensorView& view) {
  Shape shape = view.shape();
  if (shape.size() == 4) shape.erase(std::find(shape.begin() + 1, shape.end(), 1));
  Tensor tensor(view.dtype(), std::move(shape));
  std::copy_n(view.data(), view.bytes(), tensor.data<std::byte>());
  return tensor;
}

/// Two tensors beside each other along the last axis.
Tensor beside(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  shape.back() += b.shape().back();
  Tensor joined(a.dtype(), std::move(shape));
  std::byte* out = joined.data<std::byte>();
  for (int64_t row = 0; row < a.view().rows(); ++row) {
    for (const Tensor* part : {&a, &b}) {
      const int64_t bytes = part->view().row_bytes();
      out = std::copy_n(part->view().data() + row * bytes, bytes, out);
    }
  }
  return joined;
}

ExampleStep joined_branches(ExampleStep gate, const ExampleStep& value) {
  gate.value = beside(gate.value, value.value);
  gate.site += "+" + value.site;
  gate.name = "x_proj";
  if (const size_t at = gate.formula.find(", the first half"); at != std::string::npos) {
    gate.formula.erase(at);
  }
  return gate;
}

}  // namespace

Example make_example(const ExampleOptions& options) {
  Example example;
  example.spec = example_spec(options);
  example.program = build_block_program(example.spec);

  Generator generator(options.seed);
  example.input = draw(generator, {1, kTokens, kWidth});
  const Tensor q = draw(generator, {kWidth, kWidth});
  const Tensor k = draw(generator, {kWidth, kWidth});
  const Tensor v = draw(generator, {kWidth, kWidth});
  const Tensor up = draw(generator, {kWidth, 2 * kGatedHidden});
  const Tensor down = draw(generator, {kGatedHidden, kWidth});
  const Tensor plain_up = draw(generator, {kWidth, kPlainHidden});
  const Tensor plain_down = draw(generator, {kPlainHidden, kWidth});

  const auto use = [&](const std::string& weight, const char* own, const Tensor& tensor) {
    example.sources[weight] = source_of(tensor, true);
    example.weights.push_back({weight, own, tensor});
  };
  use("blocks.0.q.weight", "W_Q", q);
  use("blocks.0.k.weight", "W_K", k);
  use("blocks.0.v.weight", "W_V", v);
  if (example.spec.mlp.gated) {
    example.sources["blocks.0.mlp_gate.weight"] = source_of(columns(up, 0, kGatedHidden), true);
    example.sources["blocks.0.mlp_value.weight"] =
        source_of(columns(up, kGatedHidden, 2 * kGatedHidden), true);
    example.weights.push_back(
        {"blocks.0.mlp_gate.weight+blocks.0.mlp_value.weight", "W_swiglu", up});
    use("blocks.0.mlp_proj.weight", "W_mlp_out", down);
  } else {
    use("blocks.0.mlp_pre.weight", "W1_gelu", plain_up);
    use("blocks.0.mlp_proj.weight", "W2_gelu", plain_down);
  }
  // What is left are the norms: gain 1, bias 0.
  for (const WeightInfo& info : example.program.weights) {
    if (info.kind != WeightKind::kVector) continue;
    const float value = info.name.ends_with(".bias") ? 0.0F : 1.0F;
    const std::vector<float> values(static_cast<size_t>(element_count(info.shape)), value);
    example.sources[info.name] = source_of(Tensor::from_f32(info.shape, values), false);
  }
  return example;
}

std::vector<ExampleStep> run_example(const Example& example, Compute compute, int threads) {
  const Program& program = example.program;
  const bool gated = example.spec.mlp.gated;
  std::vector<ExampleStep> steps;
  for (const ExampleWeight& weight : example.weights) {
    steps.push_back({weight.weights, weight.name, "randn" + to_string(weight.value.shape()), true,
                     weight.value});
  }

  // Every value under its first name; nothing continues a cache here.
  std::vector<SiteId> sites;
  std::vector<bool> seen(program.values.size());
  for (const NamedValue& named : program.sites) {
    if (named.site.site == Site::kKCache || named.site.site == Site::kVCache) continue;
    if (seen[static_cast<size_t>(named.value)]) continue;
    seen[static_cast<size_t>(named.value)] = true;
    sites.push_back(named.site);
  }

  const auto bound = std::make_shared<const BoundProgram>(program, example.sources);
  SequenceInput input;
  const std::span<const float> rows = example.input.as<float>();
  input.input.assign(rows.begin(), rows.end());
  const std::vector<TracedValue> traced = trace(bound, {&input, 1}, sites, compute, threads);
  size_t gate = 0;
  for (const TracedValue& value : traced) {
    if (std::find(sites.begin(), sites.end(), value.site) == sites.end()) continue;
    const Site site = value.site.site;
    ExampleStep step;
    step.site = to_string(value.site);
    step.name = own_name(name(site), gated);
    step.formula = own_formula(program.formula(*program.find_value(value.site)), site, gated);
    step.value = without_head(value.value.view());
    if (site == Site::kResidPre && steps.size() == example.weights.size()) {
      step.formula = "randn" + to_string(step.value.shape());
      steps.insert(steps.begin(), std::move(step));
      continue;
    }
    if (site == Site::kMlpGate) gate = steps.size();
    steps.push_back(std::move(step));
    if (site == Site::kMlpValue && gate > 0) {
      ExampleStep joined = joined_branches(steps[gate], steps.back());
      steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(gate), std::move(joined));
    }
  }
  return steps;
}

}  // namespace mainstem
