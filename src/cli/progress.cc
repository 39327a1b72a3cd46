#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/console.h"

namespace mainstem::cli {
namespace {

void draw(const std::string& text) {
  // A progress bar that cannot be drawn is no reason to stop.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

Progress::Progress(std::string label, int64_t total)
    : label_(std::move(label)),
      total_(std::max<int64_t>(total, 1)),
      on_(stderr_is_terminal()),
      next_(Clock::now() + std::chrono::milliseconds(500)) {}

Progress::~Progress() {
  if (shown_) draw("\r\x1b[K");
}

void Progress::update(int64_t done) {
  if (!on_ || Clock::now() < next_) return;
  next_ = Clock::now() + std::chrono::milliseconds(100);
  shown_ = true;
  constexpr int64_t kCells = 24;
  const int64_t filled = std::clamp<int64_t>(done * kCells / total_, 0, kCells);
  std::string bar;
  for (int64_t i = 0; i < kCells; ++i) bar += i < filled ? "█" : "░";
  draw(fmt::format("\r\x1b[K{} {} {}/{}", label_, bar, done, total_));
}

}  // namespace mainstem::cli
