#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mainstem/npz.h"
#include "mainstem/safetensors.h"

namespace mainstem::cli {

/// A file of full tensors, .safetensors or .npz. Each goes to the disk when it is written, so the
/// memory that a trace needs does not grow with what it writes.
class TraceFile {
 public:
  /// Shapes of all tensors are known before. Says on standard error where they take more than
  /// 2 GB, and which kinds take most. Error (bad input): more than the disk has room for.
  TraceFile(const std::string& path, const std::vector<TensorPlan>& plan,
            const std::map<std::string, std::string>& about);
  void write(const std::string& name, const TensorView& view);
  void finish();
  /// "trace.npz: 12 tensors, 1.2 MB"
  std::string summary() const;

 private:
  std::string path_;
  size_t count_;
  int64_t bytes_ = 0;
  std::optional<SafetensorsWriter> safetensors_;
  std::optional<NpzWriter> npz_;
};

}  // namespace mainstem::cli
