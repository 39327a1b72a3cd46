#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainstem/diff.h"
#include "mainstem/session.h"

namespace mainstem {

/// One value of the dump in our meaning and layout.
struct AlignedValue {
  SiteId site;                ///< the earliest name of the value
  std::string name;           ///< theirs
  DType dtype = DType::kF32;  ///< as stored
  Shape shape = {};           ///< [B,T,…] as the program's value is; of the rows in the dump
  std::vector<double> data = {};
  /// 1 where an element is known; empty: all are. Printed text, rows that the dump left out.
  std::vector<uint8_t> known = {};
  /// Absolute error of each element as printed; empty: none.
  std::vector<float> printed_error = {};
  bool up_to_row_constant = false;  ///< equal but for one number per row is equal
  bool only_read = false;           ///< what the blocks that were asked for read: not judged
  bool complete() const { return known.empty(); }
};

/// A dump in our terms.
struct Aligned {
  std::vector<SequenceInput> inputs = {};  ///< tokens, positions, types; `sequence` is not set
  std::vector<AlignedValue> values = {};   ///< in program order, one for each value
  std::vector<std::string> unmapped = {};  ///< names that mean nothing here
  std::vector<std::string> notes = {};     ///< conventions that were undone, one sentence each
  std::string incomparable = {};           ///< why nothing can be compared; empty: it can
  /// The dump's embeddings are the rows of other ids than the inputs'.
  bool tokens_differ = false;
};

/// Finds what each tensor of the dump is, undoes its layout and convention.
Aligned align(const Model& model, const Dump& dump, const DiffOptions& options);

}  // namespace mainstem
