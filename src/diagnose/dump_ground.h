#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "diagnose/align.h"
#include "mainstem/session.h"

namespace mainstem {

/// The values of a dump that a step may stand on, and the tokens they belong to.
class DumpGround {
 public:
  /// `aligned` must outlive this object.
  explicit DumpGround(const Aligned& aligned);

  const std::vector<SequenceInput>& inputs() const { return aligned_.inputs; }
  /// nullptr where the dump lacks the value, or part of it, under this name.
  const AlignedValue* given(const SiteId& site) const;
  /// Rows [B T] of the only stack or the decoder, or of the encoder.
  int64_t row_count(bool encoder) const;
  /// No row may be left out where rotary angles or masks depend on the other rows of a batch.
  bool one_sequence() const { return aligned_.inputs.size() == 1; }
  /// Is the row padding, which nobody compares?
  bool is_padding(bool encoder, int64_t row) const;

 private:
  const Aligned& aligned_;
  std::map<std::string, const AlignedValue*> values_;
};

/// Of a number and where it stands in its value.
using ChangeOfValue = double (*)(double number, size_t at);
/// How the numbers of a value are changed; null: not at all.
using ChangeOfInputs = std::function<ChangeOfValue(const AlignedValue& value)>;

}  // namespace mainstem
