#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "mainstem/sites.h"
#include "mainstem/spec.h"

// A model is a program: a list of named steps over values. There is no other forward.

namespace mainstem {

using ValueId = int32_t;
using WeightId = int32_t;
using StepId = int32_t;
inline constexpr int32_t kNoId = -1;

/// One dimension of a value: a letter of the legend and its size; B, T and S are known only when
/// the program runs and have size -1.
struct Dim {
  char letter = 'D';
  int64_t size = -1;
  bool operator==(const Dim&) const = default;
};

/// Which rows a value has.
enum class Rows : uint8_t {
  kMain,     ///< one per token of the only stack or the decoder
  kEncoder,  ///< one per token of the encoder
  kHead,     ///< one per row whose logits are wanted
};

/// A value: rows of `width` numbers (or, for scores and pattern, one matrix per head).
struct Value {
  std::vector<Dim> dims = {};  ///< [B,T,D], [B,T,H,E], [B,H,T,S]
  int64_t width = 0;           ///< product of the dims behind B,T; 0 for scores and pattern
  Rows rows = Rows::kMain;
  StepId producer = kNoId;
};

enum class WeightKind : uint8_t { kMatrix, kVector, kTable };

/// A weight the program needs, by its own name ("blocks.0.q.weight"). A matrix is [out, in].
struct WeightInfo {
  std::string name;
  std::vector<int64_t> shape;
  WeightKind kind = WeightKind::kMatrix;
};

enum class Op : uint8_t {
  kInput,           ///< rows given by the caller (a block on its own)
  kTokens,          ///< the ids
  kEmbedTokens,     ///< rows of a table by id
  kEmbedPositions,  ///< rows of a table by position
  kSinusoid,        ///< computed positions
  kEmbedTypes,      ///< rows of a table by token type
  kAdd,             ///< sum of the inputs
  kScale,           ///< times a number
  kSoftCap,         ///< cap tanh(x / cap)
  kNorm,            ///< per row and group
  kLinear,          ///< x W^T + b
  kRotary,          ///< rotary positions
  kAttention,       ///< softmax(mask(scale q·k)) v
  kActivation,      ///< element-wise
  kMultiply,        ///< element-wise product of two
  kSelectRows,      ///< the rows whose logits are wanted
  kCustom,          ///< only diagnose emits it: a known mistake
};
std::string_view name(Op op);

struct ScaleParams {
  double factor = 1;
};  // also the cap of kSoftCap
struct NormParams {
  NormSpec norm;
  int64_t group = 0;              ///< channels normalised together; the row may hold several groups
  bool weight_per_group = false;  ///< one weight row for each group instead of a shared one
};
/// Which position a row is taken to have. Only diagnose sets another than kRight.
enum class RowPosition : uint8_t {
  kRight,        ///< given by the caller, else counted: cached tokens count, padding does not
  kWithPadding,  ///< cached tokens and padding count
  kOfPass,       ///< the number of the row in its pass
};
/// Rows of a pass taken as if they had come in several, each of which starts anew. Only diagnose
/// sets it.
struct Restarts {
  int64_t first = 0;  ///< rows of the first; 0: there is but one
  int64_t every = 0;  ///< rows of each later one; 0: one has all the rest
  /// The number of a row in its own pass.
  int64_t place(int64_t row) const {
    if (first == 0 || row < first) return row;
    return every == 0 ? row - first : (row - first) % every;
  }
  bool operator==(const Restarts&) const = default;
};
struct EmbedParams {
  double scale = 1;
  int64_t offset = 0;  ///< added to the position (by diagnose also to the id or type)
  PositionKind kind = PositionKind::kNone;
  RowPosition position = RowPosition::kRight;
  Restarts restarts = {};
  std::optional<int64_t> only_row = {};  ///< only diagnose sets it: every token reads this row
};
struct RotaryParams {
  RotarySpec rotary;
  int64_t heads = 0, head_width = 0;
  RowPosition position = RowPosition::kRight;
  int64_t offset = 0;  ///< only diagnose sets it: added to the position
  Restarts restarts = {};
};
struct ActivationParams {
  Activation activation = Activation::kSilu;
};
/// Which kv head each query head reads, and all else attention needs.
struct AttentionParams {
  int64_t heads = 0, kv_heads = 0, head_width = 0;
  double scale = 1, soft_cap = 0;
  std::vector<double> alibi_slopes;
  MaskKind mask = MaskKind::kCausal;
  int64_t window = 0;
  bool cross = false;

  // Only diagnose sets what follows.
  std::vector<int64_t> kv_map = {};  ///< kv head of each query head; empty: h / (H/K)
  int64_t diagonal = 0;              ///< masks end so many keys behind the row itself
  bool sees_padding = false;
  bool from_first_key = false;  ///< masks lie as if the pass's first row were the first key
  Restarts restarts = {};       ///< masks lie as if the first row of each were the first key
  /// What the softmax takes for the score of a key that the mask hides; none: the key has no part.
  std::optional<double> hidden_score = {};

  /// No fast kernel knows such a step.
  bool plain_only() const { return !kv_map.empty() || hidden_score.has_value(); }
};
/// A function that stands for a mistake; never part of a built program.
struct CustomParams {
  std::string note = {};
  /// inputs (one span per input value, one row each, then one per vector weight of the step),
  /// output row, position of the row.
  std::function<void(std::span<const std::span<const double>>, std::span<double>, int64_t)> apply =
      {};
  /// Instead, where tokens mix: inputs and output are all rows of one sequence in the pass, [T,…].
  std::function<void(std::span<const std::span<const double>>, std::span<double>, int64_t rows)>
      apply_sequence = {};
};

using StepParams = std::variant<std::monostate, ScaleParams, NormParams, EmbedParams, RotaryParams,
                                ActivationParams, AttentionParams, CustomParams>;

struct Step {
  Op op = Op::kInput;
  std::vector<ValueId> inputs = {};
  ValueId output = kNoId;
  std::vector<WeightId> weights = {};  ///< kLinear: W, b; kNorm: w, b; kNoId where there is none
  StepParams params = {};
  int layer = -1;
  /// kAttention: values that exist only when somebody wants them.
  ValueId scores = kNoId, pattern = kNoId, cached_keys = kNoId, cached_values = kNoId;
  std::string formula = {};  ///< in the legend's letters
};

/// A site and the value that it names. A value may have several names, the earliest first.
struct NamedValue {
  SiteId site;
  ValueId value = kNoId;
};

struct Program {
  ModelSpec spec;
  std::vector<Value> values;
  std::vector<WeightInfo> weights;
  std::vector<Step> steps;
  std::vector<NamedValue> sites;  ///< in firing order
  ValueId input = kNoId;          ///< of a block on its own
  ValueId output = kNoId;         ///< logits, or the last stream value

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  const Step& step(StepId id) const { return steps[static_cast<size_t>(id)]; }
  const WeightInfo& weight(WeightId id) const { return weights[static_cast<size_t>(id)]; }
  std::optional<ValueId> find_value(const SiteId& site) const;
  std::optional<WeightId> find_weight(std::string_view weight_name) const;
  /// The formula of the step that makes the value (sub-values of attention included).
  std::string formula(ValueId id) const;
};

/// The whole model. Validates the spec first.
Program build_program(const ModelSpec& spec);
/// One block on its own: its input rows [B,T,D] are the site blocks.0.resid_pre.
Program build_block_program(const BlockSpec& spec);

/// Throws a usage Error at the first step whose inputs, weights and output do not fit: a sum of
/// values of different widths, a product whose matrix has another size. Built programs fit; this is
/// for edited ones, and binding does it.
void validate(const Program& program);

/// Sums over the steps.
struct ProgramCounts {
  int64_t parameters = 0;           ///< a tied or shared table once
  int64_t multiply_adds = 0;        ///< of one token with `context` keys before it, head included
  int64_t kv_values_per_token = 0;  ///< numbers the cache keeps per token
};
ProgramCounts count(const Program& program, int64_t context);

}  // namespace mainstem
