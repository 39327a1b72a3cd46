#pragma once

#include <gtest/gtest.h>

#include "support/random_model.h"

// Sequences that are brought in parts, against one whole pass.

namespace mainstem::testing {

/// Tokens [begin, end); padding and encoder tokens go with the first part.
SequenceInput part_of(const SequenceInput& whole, int64_t begin, int64_t end);

/// The plain loops do the same for a row whatever stands beside it; the fast kernels round.
::testing::AssertionResult equal_for(Compute compute, const std::vector<double>& got,
                                     const std::vector<double>& want, int64_t blocks);

/// Every site of a pass that brought tokens [begin, end) against those rows of a whole pass.
void expect_part(const TestModel& model, const Traced& part, const Traced& whole, int64_t begin,
                 int64_t end, Compute compute);

}  // namespace mainstem::testing
