#include "base/processors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace mainstem {
namespace {

std::string_view trim(std::string_view text) {
  const char* const spaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

std::optional<int64_t> parse_integer(std::string_view text) {
  text = trim(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The first kilobytes of a small file; empty when there is none.
std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char chunk[4096];
  while (file && text.size() < (1u << 20)) {
    file.read(chunk, sizeof chunk);
    text.append(chunk, static_cast<size_t>(file.gcount()));
  }
  return text;
}

std::optional<double> tighter(std::optional<double> a, std::optional<double> b) {
  if (!a) return b;
  return b ? std::min(*a, *b) : a;
}

/// Calls read(folder) for `group` below `mount` and for each of its ancestors up to the mount. A
/// container often sees only its own group, mounted as the root; then the upper folders are
/// missing, and the walk ends in the one that exists.
template <typename Read>
std::optional<double> tightest_upwards(const std::string& mount, std::string_view group,
                                       Read&& read) {
  std::optional<double> quota;
  if (group.find("..") != std::string_view::npos) group = {};  // outside of what is mounted
  while (true) {
    while (!group.empty() && group.back() == '/') group.remove_suffix(1);
    quota = tighter(quota, read(mount + std::string(group)));
    if (group.empty()) return quota;
    const size_t slash = group.rfind('/');
    group = slash == std::string_view::npos ? std::string_view{} : group.substr(0, slash);
  }
}

bool has_controller(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == wanted) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

}  // namespace

int affinity_processors() {
#ifdef __linux__
  // A machine may have more processors than a cpu_set_t has bits: ask with growing sets.
  for (int bits = CPU_SETSIZE; bits <= 1 << 17; bits *= 2) {
    cpu_set_t* set = CPU_ALLOC(bits);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(bits);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return std::max(count, 1);
  }
#endif
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

std::optional<double> parse_cfs_quota(std::string_view quota_us, std::string_view period_us) {
  const auto quota = parse_integer(quota_us);
  const auto period = parse_integer(period_us);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> parse_cpu_max(std::string_view text) {
  text = trim(text);
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return parse_cfs_quota(text.substr(0, space), text.substr(space + 1));
}

std::optional<double> cgroup_quota(std::string_view proc_cgroup, const std::string& mount) {
  // Lines "hierarchy:controllers:/path"; the one of version 2 has no controllers.
  std::optional<double> quota;
  while (!proc_cgroup.empty()) {
    const size_t line_end = std::min(proc_cgroup.find('\n'), proc_cgroup.size());
    const std::string_view line = proc_cgroup.substr(0, line_end);
    proc_cgroup.remove_prefix(std::min(line_end + 1, proc_cgroup.size()));
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    if (controllers.empty()) {
      const auto read = [](const std::string& folder) {
        return parse_cpu_max(read_text(folder + "/cpu.max"));
      };
      quota = tighter(quota, tightest_upwards(mount, group, read));
    } else if (has_controller(controllers, "cpu")) {
      const auto read = [](const std::string& folder) {
        return parse_cfs_quota(read_text(folder + "/cpu.cfs_quota_us"),
                               read_text(folder + "/cpu.cfs_period_us"));
      };
      quota = tighter(quota, tightest_upwards(mount + "/" + std::string(controllers), group, read));
      if (controllers != "cpu")
        quota = tighter(quota, tightest_upwards(mount + "/cpu", group, read));
    }
  }
  return quota;
}

std::optional<double> cgroup_quota() {
#ifdef __linux__
  return cgroup_quota(read_text("/proc/self/cgroup"), "/sys/fs/cgroup");
#else
  return std::nullopt;
#endif
}

int processors_within(int affinity, std::optional<double> quota) {
  if (!quota || *quota >= affinity) return std::max(affinity, 1);
  return std::max(static_cast<int>(std::ceil(*quota)), 1);
}

}  // namespace mainstem
