#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace mainstem::cli {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void remember(int) { g_interrupted = 1; }
void leave(int) { _exit(130); }

void handle(void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

void watch_interrupt() { handle(remember, static_cast<int>(SA_RESETHAND) | SA_RESTART); }
void exit_on_interrupt() { handle(leave, SA_RESTART); }

void check_interrupt() {
  if (g_interrupted != 0) throw Interrupted{};
}

}  // namespace mainstem::cli
