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

/// A value under its first name.
struct StepRow {
  SiteId site;
  ValueId value = kNoId;
};
/// Every value that one pass without a cache has, in firing order.
std::vector<StepRow> first_names(const Program& program);

/// Weights that the value's step reads, and how many numbers they hold.
std::vector<WeightId> weights_of(const Program& program, ValueId value);
int64_t parameters_of(const Program& program, ValueId value);

/// {"site", "shape" in letters, "size" in numbers (null where only a run knows), "formula",
/// "parameters" of the weights it reads}; a second name has "same_as" and no parameters.
void write_step(JsonWriter& json, const Program& program, const StepRow& row);

}  // namespace mainstem::cli
