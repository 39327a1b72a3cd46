#pragma once

#include <string>
#include <vector>

#include "diagnose/align_layout.h"
#include "diagnose/name_table.h"
#include "mainstem/diff.h"
#include "mainstem/session.h"

namespace mainstem {

/// A tensor of the dump and one of the values it holds.
struct Source {
  const DumpTensor* tensor = nullptr;
  NamePart part = {};
};

/// What the user's program read.
struct RunInputs {
  std::vector<SequenceInput> sequences = {};
  int64_t tokens = 0, encoder_tokens = 0;  ///< of each sequence, padding counted
  /// Padding behind the tokens of a causal model: rows that are computed and never compared.
  std::vector<int64_t> right_padding = {};
  std::string incomparable = {};  ///< why there are none; empty: there are
  std::vector<std::string> notes = {};

  RunSizes sizes(const Program& program, ValueId value) const;
  int64_t batch() const { return static_cast<int64_t>(sequences.size()); }
  /// Nobody compares the row of this token.
  bool is_padding(Rows rows, int64_t sequence, int64_t token) const;
};

/// A tensor that holds an input of the pass.
struct InputTensor {
  const DumpTensor* tensor = nullptr;
  NameKind kind = NameKind::kUnknown;
};

/// What a module was called with, by the name: what came out of another says more.
bool is_module_input(const std::string& name);

/// Tokens from the dump, else from the options, else from the rows of its embeddings. Errors (bad
/// input) name a tensor that cannot be what it is called.
RunInputs read_inputs(const Model& model, const Dump& dump, const DiffOptions& options,
                      const std::vector<InputTensor>& tensors, const std::vector<Source>& sources);

/// For each row of [rows, width] the id whose row of the token table it is, -1 where it is none.
/// `tolerance` is relative to the row.
std::vector<int64_t> nearest_ids(const Model& model, Stack stack, const Numbers& rows,
                                 int64_t width, double tolerance);

/// How far values may be off by rounding alone, relative, after a step or a short chain.
double tolerance_of(ArithmeticType type);

}  // namespace mainstem
