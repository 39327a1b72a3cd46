#pragma once

#include <cstdint>

#include "oracle/math.h"
#include "oracle/oracle.h"

namespace mainstem::oracle {

/// What one attention layer looks at: T query rows [H*E], S key and value rows [K*E].
struct AttentionInput {
  Matrix q, k, v;
  int64_t query_padding = 0;  ///< leading query rows that see nothing (self-attention)
  int64_t key_padding = 0;    ///< leading keys that nobody sees
};

/// Scores before any mask, for all S keys: [1,H,T,S].
Values attention_scores(const AttentionSpec& spec, const AttentionInput& input);
/// Masked softmax of the scores, [1,H,T,S]; rows without keys are zeros.
Values attention_pattern(const AttentionSpec& spec, const AttentionInput& input,
                         const Values& scores);
/// Pattern times values, [1,T,H,E].
Values attention_mix(const AttentionSpec& spec, const AttentionInput& input, const Values& pattern);

}  // namespace mainstem::oracle
