#pragma once

#include <span>
#include <vector>

#include "diagnose/align_inputs.h"

namespace mainstem {

/// One value of an aligning pass as it comes by, and where the user's is compared with it.
struct Place {
  Place(const Program& program, const RunInputs& inputs, const SiteId& site, Shape shape,
        std::span<const double> reference);

  ValueId value;
  SiteId site;
  Shape shape;
  std::span<const double> reference;  ///< what the step makes of the values before it
  size_t token_axis = 1;
  std::vector<uint8_t> hidden = {};  ///< 1: never compared, by a mask or padding; empty: all are
  bool per_row_constant = false;     ///< each row is known but for a number added to all of it

  /// ‖theirs − reference‖ / ‖reference‖ over what is known, is compared and is finite.
  double distance(const Numbers& theirs, bool but_row_constant) const;
};

}  // namespace mainstem
