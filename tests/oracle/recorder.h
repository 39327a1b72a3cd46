#pragma once

#include <string>

#include "oracle/math.h"
#include "oracle/oracle.h"

namespace mainstem::oracle {

/// Writes sites down under their full names and hands back what the forward goes on with.
class Recorder {
 public:
  Recorder(const Weights& weights, const Replacements& replace)
      : weights_(weights), replace_(replace) {}

  /// "encoder." or "decoder." of encoder-decoder models, then "blocks.N." inside a block.
  void set_prefix(std::string stack, std::string block = {}) {
    stack_ = std::move(stack);
    block_ = std::move(block);
  }
  std::string full(const std::string& own) const { return stack_ + block_ + own; }

  const std::vector<double>& weight(const std::string& own) const;
  const std::vector<double>* weight_if(bool there, const std::string& own) const {
    return there ? &weight(own) : nullptr;
  }

  /// Records rows as [1,T,…tail] and returns them, or what stands in their place.
  Matrix site(const std::string& name, const Measured& rows, std::vector<int64_t> tail);
  Values site(const std::string& name, const Values& values);
  /// Records under a name without stack and block.
  Matrix plain_site(const std::string& name, const Measured& rows, std::vector<int64_t> tail);
  /// A second name for rows that another site made.
  void alias(const std::string& name, const std::string& of);

  Trace take() { return std::move(trace_); }

 private:
  Matrix record(const std::string& full_name, const Measured& rows, std::vector<int64_t> tail);

  const Weights& weights_;
  const Replacements& replace_;
  Trace trace_;
  std::string stack_, block_;
};

/// Rows out of values whose leading axes are [1,T].
Matrix rows_of(const Values& values);

}  // namespace mainstem::oracle
