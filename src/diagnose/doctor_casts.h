#pragma once

#include <string>

#include "diagnose/doctor_trials.h"

namespace mainstem {

/// Of a dump in bfloat16 or float16: which order its norms have, the cast before the weight or
/// behind it, if one of both gives their values bit for bit and the other does not. Both are sound,
/// so this is a note and no finding. Empty: nothing to say.
std::string order_of_casts(Trials& trials);

}  // namespace mainstem
