#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

namespace mainstem {

/// Tells a caller how far a work of several stages is. What a stage takes is estimated before, and
/// an estimate that is wrong moves only the steps within its own stage.
class WorkMeter {
 public:
  using Report = std::function<void(int64_t done, int64_t total)>;
  WorkMeter(Report report, int64_t total) : report_(std::move(report)), total_(total) {}

  void begin_stage(int64_t work) {
    done_ = stage_end_;
    stage_end_ = std::min(done_ + work, total_);
    advance(0);
  }
  void advance(int64_t work) {
    done_ = std::min(done_ + work, stage_end_);
    if (report_) report_(done_, total_);
  }
  void finish() {
    done_ = stage_end_ = total_;
    advance(0);
  }

 private:
  Report report_;
  int64_t total_;
  int64_t done_ = 0, stage_end_ = 0;
};

}  // namespace mainstem
