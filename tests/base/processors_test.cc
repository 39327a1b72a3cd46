#include "base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "mainstem/threads.h"

namespace mainstem {
namespace {

TEST(Processors, ReadsVersionTwoQuotas) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("400000 100000"), 4.0);
  EXPECT_FALSE(parse_cpu_max("max 100000\n"));
  EXPECT_FALSE(parse_cpu_max(""));
  EXPECT_FALSE(parse_cpu_max("100000"));
  EXPECT_FALSE(parse_cpu_max("0 100000"));
  EXPECT_FALSE(parse_cpu_max("100000 0"));
  EXPECT_FALSE(parse_cpu_max("1e5 100000"));
}

TEST(Processors, ReadsVersionOneQuotas) {
  EXPECT_EQ(parse_cfs_quota("50000\n", "100000\n"), 0.5);
  EXPECT_FALSE(parse_cfs_quota("-1\n", "100000\n"));
  EXPECT_FALSE(parse_cfs_quota("50000\n", ""));
  EXPECT_FALSE(parse_cfs_quota("", "100000\n"));
}

TEST(Processors, RoundsAQuotaUpWithinTheMask) {
  EXPECT_EQ(processors_within(8, std::nullopt), 8);
  EXPECT_EQ(processors_within(8, 2.0), 2);
  EXPECT_EQ(processors_within(8, 2.25), 3);
  EXPECT_EQ(processors_within(8, 0.1), 1);
  EXPECT_EQ(processors_within(2, 16.0), 2);
  EXPECT_EQ(processors_within(0, std::nullopt), 1);
}

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/mainstem_cgroup_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::string root_;
};

TEST_F(CgroupTest, TakesTheTightestOfAllAncestors) {
  write("a/b/cpu.max", "max 100000\n");
  write("a/cpu.max", "250000 100000\n");
  write("cpu.max", "700000 100000\n");
  EXPECT_EQ(cgroup_quota("0::/a/b\n", root_), 2.5);
  EXPECT_EQ(cgroup_quota("0::/\n", root_), 7.0);
  write("a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_quota("0::/a/b\n", root_), 0.5);
  write("cpu.max", "20000 100000\n");
  EXPECT_EQ(cgroup_quota("0::/a/b\n", root_), 0.2);
}

TEST_F(CgroupTest, FindsTheRootWhereTheGroupIsNotMounted) {
  write("cpu.max", "300000 100000\n");
  EXPECT_EQ(cgroup_quota("0::/system/docker-1234\n", root_), 3.0);
}

TEST_F(CgroupTest, ReadsNothingOutsideTheMount) {
  write("mount/cpu.max", "300000 100000\n");
  write("cpu.max", "100000 100000\n");
  EXPECT_EQ(cgroup_quota("0::/../other\n", root_ + "/mount"), 3.0);
}

TEST_F(CgroupTest, ReadsVersionOneUnderItsMountNames) {
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  const std::string lines = "9:memory:/job\n4:cpu,cpuacct:/job\n3:cpuset:/job\n";
  EXPECT_EQ(cgroup_quota(lines, root_), 2.0);
  EXPECT_FALSE(cgroup_quota("3:cpuset:/job\n9:cpuacct:/job\n", root_));
  write("cpu/cpu.cfs_quota_us", "100000\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_quota("4:cpuacct,cpu:/elsewhere", root_), 1.0);
  EXPECT_FALSE(cgroup_quota("3:cpuset:/job\n9:cpuacct:/job\n", root_));
}

TEST_F(CgroupTest, NothingFoundIsNoQuota) {
  EXPECT_FALSE(cgroup_quota("", root_));
  EXPECT_FALSE(cgroup_quota("0::/a\n", root_));
  EXPECT_FALSE(cgroup_quota("no colons here\n:\n", root_));
}

TEST(Processors, DefaultThreadCountFollowsTheAffinityMask) {
  EXPECT_GE(default_thread_count(), 1);
  EXPECT_LE(default_thread_count(), affinity_processors());
  std::thread([] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    EXPECT_EQ(affinity_processors(), CPU_COUNT(&mask));
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    EXPECT_EQ(affinity_processors(), 1);
    EXPECT_EQ(default_thread_count(), 1);
  }).join();
}

}  // namespace
}  // namespace mainstem
