#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/causes.h"
#include "diagnose/edit.h"

namespace mainstem::causes {

/// One of the two or three parts of a block that add to its stream.
struct SubLayer {
  std::string_view label;  ///< "attention", "cross-attention", "MLP"
  Site norm_site, out_site;
  ValueId stream = kNoId;           ///< what the stream holds before it
  ValueId norm = kNoId;             ///< the norm of its input, or none
  ValueId out = kNoId;              ///< what is added to the stream
  ValueId sum = kNoId;              ///< stream + out (of a parallel block: + the MLP's)
  ValueId result = kNoId;           ///< the sum, normed where the placement says so
  std::vector<ValueId> first = {};  ///< results of the products that read its input
};

/// An attention step of a block.
struct AttentionAt {
  std::string_view label;  ///< "attention", "cross-attention"
  const AttentionSpec* spec = nullptr;
  bool cross = false;
  ValueId q = kNoId, k = kNoId, v = kNoId;  ///< projections
  ValueId scores = kNoId, pattern = kNoId, mix = kNoId;
};

/// A norm, or the norms of q and k that belong together.
struct NormAt {
  std::string label;  ///< "attn_norm", "q_norm and k_norm"
  std::vector<ValueId> outputs;
  bool of_heads = false;  ///< of q and k
};

/// A block, or what lies outside the blocks of a stack: where forms of mistakes are looked for.
class Place {
 public:
  Place(const Program& program, const WeightSources& weights, int layer, bool encoder);

  const Program& program() const { return *program_; }
  const WeightSources& weights() const { return *weights_; }
  int layer() const { return layer_; }
  const StackSpec& stack() const { return *stack_; }
  /// Null outside of the blocks.
  const BlockSpec* block() const { return block_; }

  /// The value of a site here.
  std::optional<ValueId> find(Site site) const;
  /// Whether a step of the op makes the value. A program with a mistake in it may have another.
  bool is(ValueId value, Op op) const;
  /// The values that the steps of an op make here, in order.
  std::vector<ValueId> made_by(Op op) const;
  /// The steps here that read a value, by what they make.
  std::vector<ValueId> readers(ValueId value) const;
  const std::vector<SubLayer>& sub_layers() const { return sub_layers_; }
  const std::vector<AttentionAt>& attentions() const { return attentions_; }
  /// Every norm of the stream on its own; then those of q and k in pairs.
  std::vector<NormAt> norms() const;

  /// The sites that show it when these values are others on the same inputs: their earliest names,
  /// or those of what is made of values without a name. In program order.
  std::vector<SiteId> shown(const std::vector<ValueId>& changed) const;
  /// Where a change shows that lies behind a value: at its name `moved`, if it has that one, else
  /// where it is read.
  std::vector<SiteId> shown_behind(ValueId value, Site moved) const;
  /// `moved` where the value has that name.
  std::optional<Site> if_named(ValueId value, Site moved) const;
  SiteId site_id(Site site) const;
  /// Into program order, each once.
  void sort(std::vector<SiteId>& sites) const;
  /// The earliest name of a value, or of what is made of it.
  std::string label(ValueId value) const;

  std::shared_ptr<const Program> shared_program() const { return program_; }

 private:
  void find_sub_layers();
  void find_attentions();
  bool is_here(const Step& step, StepId id) const;
  void add_shown(ValueId value, std::vector<size_t>& sites) const;

  std::shared_ptr<const Program> program_;
  const WeightSources* weights_;
  int layer_;
  Stack stack_name_;
  const StackSpec* stack_;
  const BlockSpec* block_ = nullptr;
  StepId first_step_ = 0, last_step_ = 0;
  std::vector<SubLayer> sub_layers_;
  std::vector<AttentionAt> attentions_;
};

/// What the words of a form are.
struct Words {
  std::string yours, reference;
  std::string usual_place = {};
  std::string fix = {};
  bool only_rounds = false;
};
using Numbers = std::span<const double>;
using Change = std::function<void(Edited& edited, Numbers numbers)>;

/// Collects the forms of one cause.
class Forms {
 public:
  Forms(const Place& place, std::string cause, std::vector<Form>& out)
      : place_(place), cause_(std::move(cause)), out_(out) {}
  /// Nothing where it would show nowhere.
  void add(Words words, std::vector<SiteId> shows, Change change,
           std::vector<FreeNumber> numbers = {});

 private:
  const Place& place_;
  std::string cause_;
  std::vector<Form>& out_;
};

/// A cause and how its forms are found.
struct CauseRow {
  std::string_view id;
  std::string_view what;   ///< one sentence: what the wrong code does
  std::string_view where;  ///< on which models it can happen
  void (*find)(const Place& place, Forms& forms);
};

void embed_scale(const Place& place, Forms& forms);
void embed_position_offset(const Place& place, Forms& forms);
void embed_position_kind(const Place& place, Forms& forms);
void embed_token_type(const Place& place, Forms& forms);
void norm_eps(const Place& place, Forms& forms);
void norm_eps_outside_root(const Place& place, Forms& forms);
void norm_unbiased_variance(const Place& place, Forms& forms);
void norm_kind(const Place& place, Forms& forms);
void norm_weight_offset(const Place& place, Forms& forms);
void norm_weight_swapped(const Place& place, Forms& forms);
void norm_bias_missing(const Place& place, Forms& forms);
void norm_missing(const Place& place, Forms& forms);
void norm_placement(const Place& place, Forms& forms);
void norm_cast_order(const Place& place, Forms& forms);
void weight_transposed(const Place& place, Forms& forms);
void weight_rows_permuted(const Place& place, Forms& forms);
void weight_quant_layout(const Place& place, Forms& forms);
void bias_missing(const Place& place, Forms& forms);
void rope_pairing(const Place& place, Forms& forms);
void rope_base(const Place& place, Forms& forms);
void rope_scaling(const Place& place, Forms& forms);
void rope_partial(const Place& place, Forms& forms);
void rope_position(const Place& place, Forms& forms);
void rope_missing(const Place& place, Forms& forms);
void rope_twice(const Place& place, Forms& forms);
void qk_norm_order(const Place& place, Forms& forms);
void qk_norm_axis(const Place& place, Forms& forms);
void qk_norm_missing(const Place& place, Forms& forms);
void attn_qkv_split(const Place& place, Forms& forms);
void attn_kv_swapped(const Place& place, Forms& forms);
void attn_scale(const Place& place, Forms& forms);
void attn_softcap(const Place& place, Forms& forms);
void attn_position_bias(const Place& place, Forms& forms);
void attn_causal_mask(const Place& place, Forms& forms);
void attn_padding_mask(const Place& place, Forms& forms);
void attn_window(const Place& place, Forms& forms);
void attn_gqa_mapping(const Place& place, Forms& forms);
void attn_head_merge(const Place& place, Forms& forms);
void mlp_activation(const Place& place, Forms& forms);
void mlp_gate_value_swapped(const Place& place, Forms& forms);
void residual_missing(const Place& place, Forms& forms);
void residual_doubled(const Place& place, Forms& forms);
void residual_source(const Place& place, Forms& forms);
void residual_scale(const Place& place, Forms& forms);
void block_parallel(const Place& place, Forms& forms);
void head_final_norm(const Place& place, Forms& forms);
void head_tied(const Place& place, Forms& forms);
void head_softcap(const Place& place, Forms& forms);
void head_scale(const Place& place, Forms& forms);

/// Every cause that is an edit of a program, in the order of the contract.
std::span<const CauseRow> cause_rows();
/// The forms of one of them.
std::vector<Form> forms_of(const CauseRow& row, const Place& place);

// ------------------------------------------------------------------ used by several

/// The source of the step's weight (0: the matrix or gain, 1: the bias), or none.
std::optional<WeightSource> source_of(const Place& place, ValueId made, size_t which);
/// All of them, in order.
std::vector<ValueId> joined(const std::vector<NormAt>& norms);
/// Numbers that published code uses, without the right one.
std::vector<double> without(std::vector<double> usual, double right);
std::string number(double value);

}  // namespace mainstem::causes
