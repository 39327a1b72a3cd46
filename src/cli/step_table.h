#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/json_writer.h"
#include "mainstem/program.h"

namespace mainstem::cli {

/// "[B,T,H,E]" and "[B,T,9,64]".
std::string dims_letters(const Value& value);
std::string dims_numbers(const Value& value);
/// "q_rot" of blocks.3.q_rot.
std::string short_name(const SiteId& site);

/// The earliest name of a value that has one.
const SiteId& first_name(const Program& program, ValueId value);

/// A value under one of its names.
struct StepRow {
  SiteId site;
  ValueId value = kNoId;
};
/// Every name that a pass without a cache has, in firing order.
std::vector<StepRow> all_names(const Program& program);
/// The step's formula, or "= attn_proj" where its name is a second one (of the same block; else
/// with the block).
std::string formula_text(const Program& program, const StepRow& row);

/// Weights that the value's step reads, and how many numbers they hold (none under a second name).
std::vector<WeightId> weights_of(const Program& program, ValueId value);
int64_t parameters_of(const Program& program, const StepRow& row);

/// {"site", "shape" in letters, "size" in numbers (null where only a run knows), "formula",
/// "parameters" of the weights it reads}; a second name has "same_as" and no parameters.
void write_step(JsonWriter& json, const Program& program, const StepRow& row);

}  // namespace mainstem::cli
