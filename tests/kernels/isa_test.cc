#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu_kernels.h"

namespace mainstem::kernels {
namespace {

TEST(Isa, LevelsAreOrderedAndStartPortable) {
  const auto levels = available_isas();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), Isa::kPortable);
  EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end()));
  EXPECT_EQ(active_isa(), levels.back());
}

TEST(Isa, EveryLevelHasItsTable) {
  for (const Isa isa : available_isas()) EXPECT_EQ(cpu_kernels(isa).isa, isa) << name(isa);
  EXPECT_EQ(cpu_kernels().isa, active_isa());
}

TEST(Limits, AreMeasured) {
  const MachineLimits limits = measure_limits(1);
  EXPECT_GT(limits.f32_gflops, 0);
  EXPECT_GT(limits.int8_gops, 0);
  EXPECT_GT(limits.read_gb_s, 0);
}

}  // namespace
}  // namespace mainstem::kernels
