#pragma once

#include <string>
#include <vector>

#include "mainstem/program.h"

namespace mainstem {

/// Emits steps. The functions of build.cc read like the papers because this class does the
/// bookkeeping: ids, shapes, weight names, site names and formulas.
class Builder {
 public:
  explicit Builder(ModelSpec spec) { program_.spec = std::move(spec); }

  /// Everything built from now on belongs to this stack.
  void enter_stack(Stack stack, int64_t width);
  void enter_block(int layer) { layer_ = layer; }
  void leave_block() { layer_ = -1; }
  /// From now on values have one row per wanted row of logits.
  ValueId select_rows(ValueId x);

  ValueId input(int64_t width);
  ValueId tokens();
  ValueId embed_tokens(int64_t rows, int64_t width, ValueId ids);
  ValueId embed_positions(int64_t rows, int64_t offset);
  ValueId sinusoid(PositionKind kind);
  ValueId embed_types(int64_t rows);

  ValueId add(const std::vector<ValueId>& terms);
  ValueId scale(ValueId x, double factor);
  ValueId soft_cap(ValueId x, double cap);
  ValueId norm(ValueId x, const std::string& weight_name, const NormSpec& spec);
  ValueId qk_norm(ValueId x, const std::string& weight_name, const QkNormSpec& spec);
  /// x W^T + b; `out` are the dims behind B,T.
  ValueId linear(ValueId x, const std::string& weight_name, const std::vector<Dim>& out, bool bias);
  ValueId rotary(ValueId x, const RotarySpec& spec);
  /// `sites`: scores, pattern and the cached keys and values, as names of the sub-values.
  struct AttentionSites {
    Site scores, pattern;
    bool cached;
  };
  ValueId attention(ValueId q, ValueId k, ValueId v, const AttentionParams& params,
                    const AttentionSites& sites);
  ValueId activation(ValueId x, Activation kind);
  ValueId multiply(ValueId a, ValueId b);
  ValueId tied_head(ValueId x, const std::string& table_name, bool bias);

  /// Names a value; formulas use the last name that a value has when they are written.
  ValueId at(Site site, ValueId value);

  int64_t stack_width() const { return width_; }
  Program finish(ValueId output);

 private:
  ValueId emit(Step step, std::vector<Dim> tail);
  WeightId weight(const std::string& own_name, std::vector<int64_t> shape, WeightKind kind);
  std::string full_name(const std::string& own_name) const;
  std::string label(ValueId value) const;
  std::vector<Dim> tail(ValueId value) const;
  /// The same with heads and head width as one: a block without an output projection adds them
  /// to the stream as they are.
  std::vector<Dim> merged_tail(ValueId value) const;

  Program program_;
  Stack stack_ = Stack::kOnly;
  Rows rows_ = Rows::kMain;
  int64_t width_ = 0;
  int layer_ = -1;
};

}  // namespace mainstem
