#pragma once

#include <span>
#include <string_view>

// Mistakes that stand in released versions of well-known implementations.

namespace mainstem {

struct KnownFault {
  std::string_view cause;                      ///< "rope.pairing"
  std::string_view yours;                      ///< of the form, or its beginning
  std::span<const std::string_view> families;  ///< empty: all
  std::string_view what;  ///< the implementation with its version, and what it does: one sentence
};

std::span<const KnownFault> known_faults();

/// The sentence for a form of a cause, or nothing. Without a family: of whichever has the fault.
std::string_view known_fault(std::string_view cause, std::string_view yours,
                             std::string_view family = {});

}  // namespace mainstem
