// Is this machine described, and is a disturbed measurement noticed?
#include "launch/machine_state.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::machine_state_test {
namespace {

TEST(Machine, IsDescribed) {
  const MachineDescription machine = describe_machine();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, 1e8);
  EXPECT_FALSE(machine.kernel.empty());
}

TEST(Clocks, CountOurOwnWork) {
  const CpuClocks before = read_cpu_clocks();
  volatile double sink = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < end) sink = sink + 1;
  const CpuClocks after = read_cpu_clocks();
  EXPECT_GE(after.wall_seconds - before.wall_seconds, 0.3);
  // The sum does not depend on other programs: this process either ran, or it waited for the core.
  const double own = after.own_seconds - before.own_seconds;
  EXPECT_GT(own, 0);
  EXPECT_LE(own, after.wall_seconds - before.wall_seconds + 0.02);
  EXPECT_GE(after.busy_seconds - before.busy_seconds, own - 0.05);
}

CpuClocks clocks(double wall, double busy, double steal) {
  CpuClocks all;
  all.wall_seconds = wall;
  all.busy_seconds = busy;
  all.steal_seconds = steal;
  return all;
}

TEST(Disturbance, IsWhatOthersUsed) {
  const Disturbance quiet = disturbance(clocks(10, 100, 5), clocks(12, 104, 5), 3.9);
  EXPECT_NEAR(quiet.foreign, 0.05, 1e-12);
  EXPECT_EQ(quiet.stolen, 0);
  EXPECT_FALSE(disturbed(quiet));

  const Disturbance compiler = disturbance(clocks(10, 100, 5), clocks(12, 104, 5), 3.0);
  EXPECT_NEAR(compiler.foreign, 0.5, 1e-12);
  EXPECT_TRUE(disturbed(compiler));

  const Disturbance neighbour = disturbance(clocks(10, 100, 5), clocks(12, 104, 5.2), 4.0);
  EXPECT_NEAR(neighbour.stolen, 0.1, 1e-12);
  EXPECT_TRUE(disturbed(neighbour));
}

TEST(Disturbance, LeavesOutWhatDoesNotCount) {
  CpuClocks before = clocks(10, 100, 5);
  CpuClocks from = clocks(11, 101, 5), to = clocks(14, 107, 6);
  from.own_seconds = from.queued_seconds = 0.5;
  to.own_seconds = 1.5, to.queued_seconds = 0.75;
  leave_out(before, from, to);
  EXPECT_EQ(before.own_seconds, 1);
  EXPECT_EQ(before.queued_seconds, 0.25);
  const Disturbance rest = disturbance(before, clocks(15, 108, 6.4), 2);
  EXPECT_NEAR(rest.seconds, 2, 1e-12);   // 5 s without the 3 s left out
  EXPECT_NEAR(rest.foreign, 0, 1e-12);   // 8 s without 6 s are our own 2 s
  EXPECT_NEAR(rest.stolen, 0.2, 1e-12);  // 1.4 s without 1 s
}

// The kernel counts in ticks of 10 ms, so differences over short times are rounding.
TEST(Disturbance, IsNotClaimedForShortTimes) {
  EXPECT_FALSE(disturbed(disturbance(clocks(1, 10, 0), clocks(1.05, 10.03, 0), 0)));
}

}  // namespace
}  // namespace lockstep::machine_state_test
