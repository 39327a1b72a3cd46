#pragma once

#include <map>
#include <string>
#include <vector>

#include "diagnose/dump_ground.h"
#include "mainstem/program.h"
#include "mainstem/weights.h"

namespace mainstem {

/// A program cut back to what one of its values is made of. The values of the dump stand in it as
/// tables, whose rows are looked up by their number instead of by a token; so nothing of the
/// forward is written a second time.
struct CutProgram {
  Program program;
  WeightSources sources;  ///< its weights and tables
  /// Scores and patterns of the dump, by their site: they have no table and are put in on the way.
  std::map<std::string, const AlignedValue*> patched;
  std::vector<SiteId> read;      ///< values of the dump
  std::vector<SiteId> computed;  ///< values between those and the target
  bool row_wise = true;          ///< rows depend on nothing but themselves
  bool causal = true;            ///< rows depend on nothing behind them
  bool reads_tokens = false;
};

/// `weights`: of the whole program; their tensors and the dump's values are not copied, so both
/// must outlive the result. `change`: of the dump's values before they are read; may be empty.
CutProgram cut_back(Program program, const WeightSources& weights, const DumpGround& ground,
                    ValueId target, const ChangeOfInputs& change);

}  // namespace mainstem
