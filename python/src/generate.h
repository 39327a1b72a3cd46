#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "long_call.h"
#include "mainstem/model.h"
#include "mainstem/sampling.h"

namespace mainstem::python {

struct GenerateOptions {
  int64_t count = 0;  ///< most tokens to make
  SamplingOptions sampling;
  bool ignore_eos = false;
  Compute compute = Compute::kFast;
  int threads = 0;
};

struct Generated {
  std::vector<int64_t> ids;  ///< without the end token
  std::string stop = "length";
};

/// Tokens behind a prompt, until an end token, the count, or the model's context is full
/// ("length").
Generated generate(const Model& model, SequenceInput prompt, const GenerateOptions& options,
                   const CancelFlag& cancel);

}  // namespace mainstem::python
