#pragma once

namespace mainstem::cli {

/// ^C was pressed; main() ends with 130.
struct Interrupted {};

/// From now on the first ^C sets a flag that check_interrupt() sees; the second one kills.
void watch_interrupt();
/// From now on ^C ends the process at once with 130, for work that cannot be stopped between.
void exit_on_interrupt();
void check_interrupt();

}  // namespace mainstem::cli
