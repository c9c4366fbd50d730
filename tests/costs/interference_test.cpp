// Does a concurrent collective slow compute down by exactly the resources that it takes?
#include "costs/interference.hpp"

#include <gtest/gtest.h>

#include "kernel_test_device.hpp"

namespace lockstep::interference_test {
namespace {

TEST(SharedCores, WhoWantsLessThanHalfGetsIt) {
  const auto expect = [](double cores, double demand, double compute, double communication) {
    EXPECT_DOUBLE_EQ(share_cores(cores, demand).compute, compute);
    EXPECT_DOUBLE_EQ(share_cores(cores, demand).communication, communication);
  };
  expect(1, 0, 1, 1);
  expect(1, 0.3, 0.7, 1);
  expect(1, 0.5, 0.5, 1);
  expect(1, 0.8, 0.5, 0.5 / 0.8);
  expect(1, 2, 0.5, 0.25);
  expect(1.5, 0.5, 1, 1);  // a core and a half: enough for both
  expect(1.5, 1, 0.75, 0.75);
  expect(2, 1, 1, 1);
  expect(0.5, 0.4, 0.6, 1);  // alone, compute has 0.5 cores, as its times assume; now it has 0.3
}

TEST(Interference, NothingTakenNothingLost) {
  EXPECT_DOUBLE_EQ(slowdown(round_device(), 0.7, 0.3, 0, 0), 1);
}

TEST(Interference, MultiprocessorsTakenSlowArithmeticInProportion) {
  EXPECT_NEAR(slowdown(round_device(), 1, 0, 20, 0), 100.0 / 80, 1e-12);
  EXPECT_DOUBLE_EQ(slowdown(round_device(), 0, 1, 20, 0), 1);
}

TEST(Interference, TrafficTakenSlowsStreamsInProportion) {
  EXPECT_NEAR(slowdown(round_device(), 0, 1, 0, 0.4e12), 1.6 / 1.2, 1e-12);
  // a kernel at the launch floor loses nothing
  EXPECT_DOUBLE_EQ(slowdown(round_device(), 0, 0, 20, 0.4e12), 1);
}

TEST(Interference,
     StaysInThePublishedRangeOnAnA100LikeDevice) {  // fact 112: 18.9 % mean, 40 % worst
  Device d = round_device();
  d.multiprocessors = 108;
  const double factor = slowdown(d, 0.6, 0.35, 24, 240e9 * hbm_bytes_per_wire_byte);
  EXPECT_GT(factor, 1.1);
  EXPECT_LT(factor, 1.5);
}

TEST(Interference, NeverStarvesCompletely) {
  EXPECT_LE(slowdown(round_device(), 1, 0, 1000, 1e15), 4);
  EXPECT_LE(slowdown(round_device(), 0, 1, 1000, 1e15), 4);
}

}  // namespace
}  // namespace lockstep::interference_test
