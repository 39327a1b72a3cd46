#pragma once

#include <functional>

#include "mainstem/sites.h"
#include "mainstem/tensor.h"

namespace mainstem {

/// One wanted value, as it is delivered during a pass. The data lives until the sink returns.
struct TraceEvent {
  SiteId site;
  TensorView value;  ///< [B,T,…] in the pass's own type (f32 or f64); tokens are i64
};

/// Receives the wanted values in the order of the sites. An exception ends the pass.
using TraceSink = std::function<void(const TraceEvent&)>;

/// May overwrite a wanted value in place, after the sink saw it and before anything later reads it:
/// every later step, and what the same step makes of it (attention's pattern is made from its
/// scores, the mixture from the pattern). `data` holds value.count() numbers of value.dtype().
/// - tokens: not called.
/// - scores: what masked entries hold is not read. The mask stays the program's own.
/// - pattern: every entry that is not 0 counts, masked or not.
/// - k_cache, v_cache: what is written stays in the cache for later passes, too.
/// A pass that is patched but changes nothing computes the same in double; in float32 scores and
/// pattern are rounded where they could be changed.
using ValuePatch = std::function<void(const TraceEvent& event, void* data)>;

}  // namespace mainstem
