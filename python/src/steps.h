#pragma once

#include <string>
#include <vector>

#include "bindings.h"
#include "long_call.h"
#include "mainstem/session.h"

namespace mainstem::python {

/// "fast", "f32" or "f64"; a usage Error for any other word.
Compute compute_named(const std::string& text);

/// Every site of a program as (name, letters, sizes, formula, earliest name of the same value).
nb::list site_table(const Program& program);

struct PassOptions {
  Compute compute = Compute::kF32;
  int threads = 0;
};

/// Runs one pass and keeps the values of the wanted sites. `sites` are names in any order; the
/// result is (name, numpy array) in the order of the program.
nb::list traced(const std::shared_ptr<const BoundProgram>& bound,
                const std::vector<SequenceInput>& inputs, const std::vector<std::string>& sites,
                const PassOptions& options);

/// Sequences without padding as inputs of one pass: the shorter ones padded on the left.
std::vector<SequenceInput> padded_inputs(const std::vector<std::vector<int64_t>>& sequences,
                                         const std::vector<std::vector<int64_t>>& encoder);

/// The earliest name of the program's result: "logits", or the last stream value.
std::string output_site(const Program& program);

}  // namespace mainstem::python
