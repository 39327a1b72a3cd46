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

/// May overwrite a wanted value in place, after the sink saw it and before a later step reads it.
/// `data` holds value.count() numbers of value.dtype(). Not called for tokens and for the
/// sub-values of attention (scores, pattern, cached keys and values).
using ValuePatch = std::function<void(const TraceEvent& event, void* data)>;

}  // namespace mainstem
