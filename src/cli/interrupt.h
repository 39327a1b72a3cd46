#pragma once

#include <atomic>

#include "mainstem/session.h"

namespace mainstem::cli {

/// ^C was pressed; main() ends with 130. A pass that is given interrupt_flag() ends the same way.
using Interrupted = Cancelled;

/// From now on the first ^C sets a flag that check_interrupt() sees; the second one kills.
void watch_interrupt();
/// For SessionOptions::cancel.
const std::atomic<bool>* interrupt_flag();
/// From now on ^C ends the process at once with 130, for work that cannot be stopped between.
void exit_on_interrupt();
void check_interrupt();

}  // namespace mainstem::cli
