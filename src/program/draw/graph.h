#pragma once

#include <string>
#include <vector>

#include "mainstem/program.h"
#include "mainstem/sites.h"

// One block of a program as a graph to be drawn: a node for each step, three for attention.

namespace mainstem::draw {

enum class NodeKind : uint8_t {
  kInput,  ///< the stream entering the block
  kPort,   ///< rows from elsewhere: the encoder's output
  kAdd,
  kNorm,
  kLinear,
  kPosition,    ///< rotary
  kAttention,   ///< scores, pattern and their product with v
  kActivation,  ///< element-wise: activation, product, scale
};
inline constexpr int kNodeKinds = 8;

struct Node {
  NodeKind kind = NodeKind::kInput;
  std::string title = {};  ///< what the step does: "RMSNorm", "softmax, causal"
  /// The same where there is little room, "…" for what is left out: "softmax…". At most 9 or 10
  /// characters.
  std::string short_title = {};
  std::vector<Site> sites = {};  ///< its value's names
  std::vector<Dim> dims = {};
  std::string formula = {};
  std::vector<int> inputs = {};  ///< nodes, without repetition
  std::string key = {};          ///< what the step is, apart from where its inputs come from
  bool differs = false;          ///< from every step of the block beside it

  /// "attn_proj = attn_out"
  std::string names() const;
};

/// Nodes in the order of their steps, so that inputs come first. The stem is the shortest way
/// from the block's input to its output; in every built block it holds only sums and the norms
/// that stand on the stream itself.
struct BlockGraph {
  std::vector<Node> nodes;
  std::vector<int> stem;
};

/// Internal Error where the program has no such block.
BlockGraph make_graph(const Program& program, Stack stack, int layer);

/// "[B,T,H=9,E=64]", or without numbers "[B,T,H,E]".
std::string shape_text(const std::vector<Dim>& dims, bool numbers);

/// Marks the nodes on either side that the other side has no equal of.
void mark_differences(const std::vector<BlockGraph*>& a, const std::vector<BlockGraph*>& b);

}  // namespace mainstem::draw
