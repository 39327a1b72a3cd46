#include "cli/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cli/console.h"
#include "cli/text.h"
#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

constexpr int64_t kWorthSaying = 2'000'000'000;
constexpr size_t kKindsSaid = 3;

std::string size_text(int64_t bytes) { return byte_size(static_cast<double>(bytes)); }

/// "scores 17.3 GB, pattern 17.3 GB, …": what stands behind the last point of the names, largest
/// first.
std::string largest_kinds(const std::vector<TensorPlan>& plan) {
  std::map<std::string, int64_t> kinds;
  for (const TensorPlan& tensor : plan) {
    kinds[tensor.name.substr(tensor.name.rfind('.') + 1)] += byte_count(tensor.dtype, tensor.shape);
  }
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [kind, bytes] : kinds) order.emplace_back(-bytes, kind);
  std::sort(order.begin(), order.end());
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), kKindsSaid); ++i) {
    text += (i > 0 ? ", " : "") + order[i].second + " " + size_text(-order[i].first);
  }
  return text + (order.size() > kKindsSaid ? ", …" : "");
}

void check_size(const std::string& path, const std::vector<TensorPlan>& plan) {
  int64_t total = 0;
  for (const TensorPlan& tensor : plan) total += byte_count(tensor.dtype, tensor.shape);
  constexpr const char* kHint = "--sites and --positions choose less";
  const auto folder = std::filesystem::absolute(path).parent_path();
  std::error_code error;  // a folder that does not exist is reported when the file is opened
  const auto space = std::filesystem::space(folder, error);
  if (!error && static_cast<uintmax_t>(total) > space.available) {
    throw bad_input("output", "room for " + size_text(total) + ": " + largest_kinds(plan),
                    size_text(static_cast<int64_t>(space.available)) + " free")
        .in(path)
        .hint(kHint);
  }
  if (total > kWorthSaying) {
    note(
        fmt::format("{}: {} to write: {}; {}", path, size_text(total), largest_kinds(plan), kHint));
  }
}

}  // namespace

TraceFile::TraceFile(const std::string& path, const std::vector<TensorPlan>& plan,
                     const std::map<std::string, std::string>& about)
    : path_(path), count_(plan.size()) {
  check_size(path, plan);
  if (path.ends_with(".safetensors")) {
    safetensors_.emplace(path, plan, about);
  } else {
    npz_.emplace(path);
  }
}

void TraceFile::write(const std::string& name, const TensorView& view) {
  bytes_ += view.bytes();
  safetensors_ ? safetensors_->write(name, view) : npz_->write(name, view);
}

void TraceFile::finish() { safetensors_ ? safetensors_->finish() : npz_->finish(); }

std::string TraceFile::summary() const {
  return fmt::format("{}: {}, {}\n", path_, count_text(static_cast<int64_t>(count_), "tensor"),
                     size_text(bytes_));
}

}  // namespace mainstem::cli
