#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnose/name_lines.h"
#include "mainstem/dump.h"
#include "mainstem/model.h"

namespace mainstem {

/// How what a program calls a step's value may differ from the value, without being wrong.
enum class Convention : uint8_t {
  kNone,
  kNormalized,       ///< a norm's output without its weight and bias
  kRawScores,        ///< q·k before scale, soft cap and position bias
  kUncappedScores,   ///< scaled, before soft cap and position bias
  kScaledQuery,      ///< a query times the scale of the scores
  kPairedRows,       ///< q and k permuted: channel 2j + s of a head is ours s·E/2 + j
  kHalvedRows,       ///< the other way round
  kCentred,          ///< a stream less the mean of each row
  kNoValueBias,      ///< v and its mixture without v's bias, which the next product has
  kScaledEmbedding,  ///< token rows times the embedding's scale
  kRowConstant,      ///< logits but for a constant per row
};

/// What a tensor may stand for.
struct Target {
  ValueId value = kNoId;
  Convention convention = Convention::kNone;
  bool loose = false;  ///< another shape than the value's means that it is not meant
  /// Which of the value's names is meant, where two may hold different numbers; tokens: any.
  SiteId site = {};
  bool operator==(const Target& other) const {
    return value == other.value && convention == other.convention && loose == other.loose;
  }
};

/// One of the values that a tensor holds side by side; most hold one.
struct NamePart {
  std::vector<Target> targets;   ///< the first is what the name says; others, where that fails
  std::vector<int64_t> columns;  ///< of a fused tensor: where each channel of the value lies
  int64_t width = 0;             ///< of a fused tensor: its channels
};

enum class NameKind : uint8_t {
  kUnknown,
  kValues,
  kTokens,
  kEncoderTokens,
  kKeyMask,
  kEncoderKeyMask,
  kPositions,
  kTokenTypes,
  kPassing,  ///< known, but no step: a view, a product before its bias
};

struct Meaning {
  NameKind kind = NameKind::kUnknown;
  std::vector<NamePart> parts = {};
};
/// One value, which is the first of the targets that fits.
Meaning meaning_of(std::vector<Target> targets);

/// What names in dumps mean for one model: ours, module paths of transformers under any prefix,
/// hooks of TransformerLens 2 and 3, nodes of llama.cpp, and the caller's own.
class NameTable {
 public:
  /// An Error (bad input) where one of the caller's names stands for no site of the model.
  NameTable(const Model& model, const std::vector<std::pair<std::string, std::string>>& names);

  Meaning find(const DumpTensor& tensor) const;
  /// Names of the values that a tensor holds along its first axis; none: it is one value. An Error
  /// (bad input) where the caller says so and the axis has another length.
  std::vector<std::string> slices(const DumpTensor& tensor) const;
  bool is_given(const std::string& name) const { return given_.contains(name); }
  /// The caller's names.
  const std::vector<NameLine>& lines() const { return lines_; }

 private:
  /// A module's outputs and what it reads.
  struct Module {
    Meaning out, second, in;
  };
  /// A node of llama.cpp: several bear one name and are told apart by op.
  struct Node {
    std::string op;  ///< empty: any
    Target target;
  };

  void add_own();
  void add_hooks();
  void add_bridge();
  void add_table_modules();
  void add_weight_modules();
  void add_sub_layer(const std::string& module, const SiteId& projection);
  void add_bert_modules();
  void add_nodes();
  void add_node_weights();
  void add(const std::string& name, const Target& target);
  void add_module_value(const std::string& path, ValueId value, const SiteId& site = {});
  void add_core(const std::string& path);

  std::optional<ValueId> value(Site site, int layer, Stack stack) const;
  bool is_named(ValueId value) const { return named_[static_cast<size_t>(value)]; }
  /// The named value that the step reads which made this one.
  std::optional<ValueId> input_of(ValueId value) const;
  /// The last of a value's names, which is what a later step reads.
  SiteId last_name(ValueId value) const;

  const Module* find_module(std::string_view path) const;
  Meaning find_in_modules(std::string_view name) const;
  Meaning find_output(std::string_view name) const;
  Meaning find_input(const DumpTensor& tensor) const;
  Meaning find_node(const DumpTensor& tensor) const;
  Meaning by_operands(const DumpTensor& tensor) const;
  Meaning hidden_state(int64_t n, Stack stack) const;
  Meaning kept_for_next_pass(std::string_view name) const;
  struct OutputList;
  std::vector<OutputList> output_lists() const;

  const Model& model_;
  const Program& program_;
  std::vector<NameLine> lines_;
  std::vector<bool> named_;
  std::map<std::string, Meaning, std::less<>> given_, names_;
  std::map<std::string, Module, std::less<>> modules_;
  std::map<std::string, std::string, std::less<>> cores_;  ///< path without its base → path
  std::map<std::string, std::vector<Node>, std::less<>> nodes_;
  /// Weights by llama.cpp's names: what a product with it, or a sum with a bias, makes.
  std::map<std::string, Meaning, std::less<>> node_weights_;
  std::set<ValueId> paired_;  ///< q and k that llama.cpp computes with paired channels
};

}  // namespace mainstem
