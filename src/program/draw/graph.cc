#include "program/draw/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "mainstem/error.h"

namespace mainstem::draw {
namespace {

std::string norm_title(const NormSpec& norm) {
  std::string text = norm.kind == NormKind::kRms ? "RMSNorm" : "LayerNorm";
  if (!norm.weight) return text + ", no weight";
  if (norm.weight_offset != 0) text += fmt::format(", {:g} + γ", norm.weight_offset);
  return text;
}

/// The usual name, and one of at most nine characters.
std::pair<const char*, const char*> activation_titles(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return {"ReLU", "ReLU"};
    case Activation::kReluSquared:
      return {"ReLU²", "ReLU²"};
    case Activation::kGeluErf:
      return {"GELU (erf)", "GELU erf"};
    case Activation::kGeluTanh:
      return {"GELU (tanh)", "GELU tanh"};
    case Activation::kSilu:
      return {"SiLU", "SiLU"};
    case Activation::kQuickGelu:
      return {"quick GELU", "quickGELU"};
  }
  return {};
}

std::string rotary_title(const RotaryParams& params) {
  std::string text = "RoPE";
  if (params.rotary.scaling.kind != RotaryScalingKind::kNone) {
    text += fmt::format(" {}", name(params.rotary.scaling.kind));
  }
  if (params.rotary.width != params.head_width) {
    text += fmt::format(", {} of {}", params.rotary.width, params.head_width);
  }
  return text;
}

std::string mask_title(const AttentionParams& params) {
  if (params.mask == MaskKind::kWindow) return fmt::format("softmax, window {}", params.window);
  return params.mask == MaskKind::kCausal ? "softmax, causal" : "softmax, all keys";
}

std::string scores_title(const AttentionParams& params) {
  std::string text = fmt::format("q·kᵀ × {:.4g}", params.scale);
  if (params.soft_cap != 0) text += fmt::format(", cap {:g}", params.soft_cap);
  if (!params.alibi_slopes.empty()) text += ", ALiBi";
  return text;
}

/// `kind` says all of `title`, or is marked as a part of it.
std::string shortened(const std::string& title, const std::string& kind) {
  return title == kind ? kind : kind + "…";
}

/// What a step of its own node does: kind, title and short title.
void describe(const Step& step, Node& node) {
  const auto say = [&](NodeKind kind, std::string title, std::string short_title) {
    node.kind = kind;
    node.title = std::move(title);
    node.short_title = std::move(short_title);
  };
  const bool has_bias = step.weights.size() > 1 && step.weights[1] != kNoId;
  switch (step.op) {
    case Op::kAdd:
      return say(NodeKind::kAdd, "⊕", "⊕");
    case Op::kScale: {
      const std::string text = fmt::format("× {:.4g}", std::get<ScaleParams>(step.params).factor);
      return say(NodeKind::kActivation, text, text);
    }
    case Op::kNorm: {
      const auto& params = std::get<NormParams>(step.params);
      const std::string text = norm_title(params.norm);
      const std::string kind = params.norm.kind == NormKind::kRms ? "RMSNorm" : "LayerNorm";
      if (node.dims.size() < 4) return say(NodeKind::kNorm, text, shortened(text, kind));
      const bool whole = params.group != node.dims[3].size;
      return say(NodeKind::kNorm, text + (whole ? ", all heads" : ", per head"), kind + "…");
    }
    case Op::kLinear:
      return has_bias ? say(NodeKind::kLinear, "Linear + bias", "Linear…")
                      : say(NodeKind::kLinear, "Linear", "Linear");
    case Op::kRotary: {
      const std::string text = rotary_title(std::get<RotaryParams>(step.params));
      return say(NodeKind::kPosition, text, shortened(text, "RoPE"));
    }
    case Op::kActivation: {
      const auto [title, short_title] =
          activation_titles(std::get<ActivationParams>(step.params).activation);
      return say(NodeKind::kActivation, title, short_title);
    }
    case Op::kMultiply:
      return say(NodeKind::kActivation, "⊙ multiply", "⊙");
    case Op::kInput:
    case Op::kTokens:
    case Op::kEmbedTokens:
    case Op::kEmbedPositions:
    case Op::kSinusoid:
    case Op::kEmbedTypes:
    case Op::kSoftCap:
    case Op::kAttention:
    case Op::kSelectRows:
    case Op::kCustom:
      break;
  }
  say(NodeKind::kActivation, std::string(name(step.op)), std::string(name(step.op)));
}

class GraphBuilder {
 public:
  GraphBuilder(const Program& program, Stack stack, int layer)
      : program_(program), stack_(stack), layer_(layer) {}

  BlockGraph build() {
    const auto first = program_.find_value({Site::kResidPre, layer_, stack_});
    const auto last = program_.find_value({Site::kResidPost, layer_, stack_});
    if (!first || !last) throw internal_error("a block to draw that the program does not have");
    Node input{.kind = NodeKind::kInput};
    add(*first, std::move(input));
    collect(*last);
    for (StepId id : steps_) add_step(program_.step(id));
    find_stem(node_of_.at(*last));
    return std::move(graph_);
  }

 private:
  /// The block's steps that the value needs.
  void collect(ValueId value) {
    if (node_of_.contains(value)) return;
    const StepId id = program_.value(value).producer;
    if (program_.step(id).layer != layer_ || steps_.contains(id)) return;
    if (program_.value(value).rows == Rows::kEncoder && stack_ == Stack::kDecoder &&
        is_encoders(value)) {
      return;
    }
    steps_.insert(id);
    for (ValueId input : program_.step(id).inputs) collect(input);
  }

  /// A value of the encoder's stack, which may have blocks of the same number.
  bool is_encoders(ValueId value) const {
    const auto decoder = program_.find_value({Site::kTokens, -1, Stack::kDecoder});
    return decoder && value < *decoder;
  }

  int add(ValueId value, Node node) {
    node.dims = program_.value(value).dims;
    if (program_.value(value).rows == Rows::kEncoder && stack_ == Stack::kDecoder) {
      for (Dim& dim : node.dims) {
        if (dim.letter == 'T') dim.letter = 'S';
      }
    }
    for (const NamedValue& named : program_.sites) {
      if (named.value == value && named.site.layer == layer_ && named.site.stack == stack_) {
        node.sites.push_back(named.site.site);
      }
    }
    if (node.formula.empty()) node.formula = program_.formula(value);
    graph_.nodes.push_back(std::move(node));
    const int id = static_cast<int>(graph_.nodes.size()) - 1;
    node_of_[value] = id;
    return id;
  }

  int node(ValueId value) {
    const auto found = node_of_.find(value);
    if (found != node_of_.end()) return found->second;
    const bool encoder = program_.value(value).rows == Rows::kEncoder;
    const std::string title = encoder ? "encoder output" : "from elsewhere";
    return add(value, {.kind = NodeKind::kPort, .title = title, .short_title = title});
  }

  void add_step(const Step& step) {
    if (step.op == Op::kAttention) return add_attention(step);
    Node made;
    made.dims = program_.value(step.output).dims;
    describe(step, made);
    for (ValueId input : step.inputs) add_input(made, node(input));
    made.key = made.title;
    for (WeightId weight : step.weights) {
      if (weight == kNoId) continue;
      made.key += fmt::format(" [{}]", fmt::join(program_.weight(weight).shape, ","));
    }
    if (const auto* norm = std::get_if<NormParams>(&step.params)) {
      made.key += fmt::format(" {:g}", norm->norm.eps);
    } else if (const auto* rotary = std::get_if<RotaryParams>(&step.params)) {
      made.key += fmt::format(" {} {:g}", name(rotary->rotary.pairing), rotary->rotary.base);
    }
    add(step.output, std::move(made));
  }

  void add_attention(const Step& step) {
    const auto& params = std::get<AttentionParams>(step.params);
    const auto make = [&](std::string title, const char* short_title, std::vector<int> inputs) {
      return Node{.kind = NodeKind::kAttention,
                  .title = title,
                  .short_title = short_title,
                  .inputs = std::move(inputs),
                  .key = std::move(title)};
    };
    const int q = node(step.inputs[0]), k = node(step.inputs[1]);
    std::vector<int> of_scores{q};
    if (k != q) of_scores.push_back(k);
    const int scores = add(step.scores, make(scores_title(params), "q·kᵀ…", of_scores));
    const int pattern = add(step.pattern, make(mask_title(params), "softmax…", {scores}));
    add(step.output, make("pattern · v", "pattern · v", {pattern, node(step.inputs[2])}));
  }

  static void add_input(Node& node, int input) {
    if (std::find(node.inputs.begin(), node.inputs.end(), input) == node.inputs.end()) {
      node.inputs.push_back(input);
    }
  }

  /// The shortest way from node 0 to `last`. Inputs come first, so one sweep is enough.
  void find_stem(int last) {
    const size_t count = graph_.nodes.size();
    constexpr int kFar = 1 << 20;
    std::vector<int> distance(count, kFar), before(count, -1);
    distance[0] = 0;
    for (size_t n = 0; n < count; ++n) {
      for (int input : graph_.nodes[n].inputs) {
        if (distance[static_cast<size_t>(input)] + 1 < distance[n]) {
          distance[n] = distance[static_cast<size_t>(input)] + 1;
          before[n] = input;
        }
      }
    }
    for (int n = last; n >= 0; n = before[static_cast<size_t>(n)]) graph_.stem.push_back(n);
    std::reverse(graph_.stem.begin(), graph_.stem.end());
  }

  const Program& program_;
  Stack stack_;
  int layer_;
  std::set<StepId> steps_;
  std::map<ValueId, int> node_of_;
  BlockGraph graph_;
};

/// A sum is known by what it adds: with another placement of the norms it has another name.
std::string full_key(const BlockGraph& graph, const Node& node) {
  if (node.kind == NodeKind::kAdd) {
    std::string terms = "sum";
    for (int input : node.inputs) {
      terms += " " + graph.nodes[static_cast<size_t>(input)].names();
    }
    return terms;
  }
  return node.names() + "|" + shape_text(node.dims, true) + "|" + node.key;
}

}  // namespace

std::string Node::names() const {
  std::string text;
  for (Site site : sites) text += (text.empty() ? "" : " = ") + std::string(name(site));
  return text;
}

std::string shape_text(const std::vector<Dim>& dims, bool numbers) {
  std::string text;
  for (const Dim& dim : dims) {
    text += text.empty() ? "[" : ",";
    text += dim.letter;
    if (numbers && dim.size >= 0) text += fmt::format("={}", dim.size);
  }
  return text + "]";
}

BlockGraph make_graph(const Program& program, Stack stack, int layer) {
  return GraphBuilder(program, stack, layer).build();
}

void mark_differences(const std::vector<BlockGraph*>& a, const std::vector<BlockGraph*>& b) {
  const auto keys = [](const std::vector<BlockGraph*>& graphs) {
    std::set<std::string> all;
    for (const BlockGraph* graph : graphs) {
      for (const Node& node : graph->nodes) all.insert(full_key(*graph, node));
    }
    return all;
  };
  const auto mark = [](const std::vector<BlockGraph*>& graphs,
                       const std::set<std::string>& others) {
    for (BlockGraph* graph : graphs) {
      for (Node& node : graph->nodes) node.differs = !others.contains(full_key(*graph, node));
    }
  };
  mark(a, keys(b));
  mark(b, keys(a));
}

}  // namespace mainstem::draw
