#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mainstem::cli {

/// A bar on standard error while something takes long; nothing unless that is a terminal. It
/// appears after half a second and leaves no trace.
class Progress {
 public:
  Progress(std::string label, int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  int64_t total_;
  const bool on_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace mainstem::cli
