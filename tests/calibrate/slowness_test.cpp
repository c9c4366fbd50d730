// Does injected slowness take its time, as in the simulator?
#include "runs/slowness.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "strategies/common/stragglers.hpp"

namespace lockstep::slowness_test {
namespace {

// The device needs 10 ms for its issued work, which also counts as compute: the rank sleeps three
// times as long.
TEST(SlowRank, PaysForWhatTheDeviceStillHasToDo) {
  bool under_way = true;
  Slowness slowness([&] {
    if (under_way) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    under_way = false;
  });
  const auto start = std::chrono::steady_clock::now();
  slowness.begin(4);
  slowness.pay();
  EXPECT_GE(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 0.04);
}

TEST(SlowRank, WaitsForNoDeviceUnlessItIsSlow) {
  Slowness slowness([] { ADD_FAILURE() << "waited"; });
  slowness.begin(1);
  slowness.pay();
  slowness.pause();
}

TEST(SlowRank, JittersAsInTheSimulator) {
  TrainOptions options;
  options.seed = 7;
  options.jitter = 0.1;
  options.slow_ranks[1] = 1.5;
  const Jitter law = ShiftedExponential{0.1};
  for (const int rank : {0, 1, 2}) {
    for (const int step : {0, 1, 99}) {
      const double expected = (rank == 1 ? 1.5 : 1) * draw(law, 7, rank, step);
      EXPECT_DOUBLE_EQ(slowness_factor(options, rank, step), expected);
    }
  }
  EXPECT_NE(slowness_factor(options, 0, 0), slowness_factor(options, 0, 1));
  options.jitter = 0;
  EXPECT_EQ(slowness_factor(options, 0, 5), 1);
}

}  // namespace
}  // namespace lockstep::slowness_test
