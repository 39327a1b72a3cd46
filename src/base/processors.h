#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mainstem {

/// Processors in this thread's affinity mask, at least 1.
int affinity_processors();

/// Processors' worth of time in the text of a cgroup v2 `cpu.max` ("150000 100000" is 1.5);
/// nothing for "max" or text that is no quota.
std::optional<double> parse_cpu_max(std::string_view text);
/// The same from the texts of cgroup v1 `cpu.cfs_quota_us` (-1: none) and `cpu.cfs_period_us`.
std::optional<double> parse_cfs_quota(std::string_view quota_us, std::string_view period_us);

/// The tightest quota of the process's cgroups and their ancestors. `proc_cgroup` is the text of
/// /proc/self/cgroup, `mount` the folder where the hierarchies are mounted (/sys/fs/cgroup).
std::optional<double> cgroup_quota(std::string_view proc_cgroup, const std::string& mount);

/// The same for this process.
std::optional<double> cgroup_quota();

/// Processors for a mask of `affinity` and an optional quota, which is rounded up; at least 1.
int processors_within(int affinity, std::optional<double> quota);

}  // namespace mainstem
