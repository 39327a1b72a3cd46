#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "mainstem/program.h"

namespace mainstem {

struct PlanOptions {
  std::vector<SiteId> wanted;  ///< must exist and be delivered, under these names
  bool fuse = false;           ///< absorb neighbours into products (float32 kernels only)
  bool skip_encoder = false;   ///< a decode pass: the encoder's work is in the cache already
};

/// What a step becomes that a product absorbs behind it.
enum class Absorbed : uint8_t { kScale, kSoftCap, kActivation, kRotary, kAdd, kGate };
/// Empty: no product absorbs this op. What else has to hold stands where the planner absorbs.
std::optional<Absorbed> can_absorb(Op op);

/// A product's share of one weight matrix, with the steps it absorbed behind it.
struct GemmPartPlan {
  StepId linear = kNoId;
  StepId value_linear = kNoId;   ///< of a gated pair
  std::vector<StepId> epilogue;  ///< in order; a gate is its activation and its multiply
  ValueId output = kNoId;
  StepId cache_of = kNoId;  ///< attention step whose cache it writes
  bool is_key = false;
};

struct PlanNode {
  bool is_gemm = false;
  StepId step = kNoId;                          ///< when it is a single step
  StepId norm = kNoId;                          ///< gemm: absorbed prologue
  ValueId input = kNoId;                        ///< gemm: what is read (before the norm)
  std::vector<GemmPartPlan> parts;              ///< gemm
  bool copy_keys = false, copy_values = false;  ///< attention: the cache is not yet written
  std::vector<size_t> deliver;                  ///< indices of Program::sites due after this node
};

/// How a program runs: which steps run together, where their values lie, what is delivered when.
struct Plan {
  std::vector<PlanNode> nodes;
  /// First column of each value in the arena of its rows, -1 for values that are never stored.
  std::vector<int64_t> columns;
  /// Columns of the arena for each kind of rows.
  std::array<int64_t, 3> arena_columns{};
  std::vector<bool> wanted;  ///< by ValueId

  bool stored(ValueId id) const { return columns[static_cast<size_t>(id)] >= 0; }
};

/// A usage Error where the program lacks a wanted site.
Plan make_plan(const Program& program, PlanOptions options);

}  // namespace mainstem
