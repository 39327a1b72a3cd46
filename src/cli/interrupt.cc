#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace mainstem::cli {
namespace {

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void remember(int) { g_interrupted.store(true, std::memory_order_relaxed); }
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

const std::atomic<bool>* interrupt_flag() { return &g_interrupted; }

void check_interrupt() {
  if (g_interrupted.load(std::memory_order_relaxed)) throw Interrupted{};
}

}  // namespace mainstem::cli
