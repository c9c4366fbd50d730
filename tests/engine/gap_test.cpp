// Is a lane's wait for a collective divided into communication, waiting for other ranks and
// host-bound time as the lane spent it?
#include "engine/gap.hpp"

#include <gtest/gtest.h>

#include "engine/range.hpp"

namespace lockstep::gap_test {
namespace {

// Four lanes wait until 8 s for the collective of 6 to 8 s. Two earlier collectives ran from 1 to 2
// s and from 2 to 4 s. The fifth lane lies beyond the four lanes that the function divides
// together.
TEST(Gap, IsDividedByLaneAndSummedOverRanks) {
  CollectiveWindows collectives("all", 5, {});
  const std::vector<Window> windows{{1, 2}, {2, 4}, {6, 8}};
  const std::vector<std::vector<double>> ready{{0.5, 0, 0, 0, 0}, {}, {5, 6, 3, 0, 0}};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const auto state = std::make_shared<Event::State>();
    state->ready.assign(ready[i].begin(), ready[i].end());
    collectives.add({state});
    collectives.of(i)[0] = windows[i];
  }
  std::vector<double> positions{0.25, 3, 7, 9, 0};
  const std::vector<double> ranks{1, 2, 4, 8, 16};
  // Lane 0 waits from 0.25 s on: 3 + 2 s of communication, a quarter second until the first
  // collective is issued (at 0.5 s) and one second until the last is issued (at 5 s), both
  // host-bound; the remaining 1.5 s it waits for other ranks. Lane 1 waits from 3 s: 1 + 2 s of
  // communication, and 2 s until the last collective, which its own host issues last at 6 s. Lane 2
  // waits from 7 s and lane 3 from 9 s, after the end.
  const std::vector<double> exposed{5, 3, 1, 0}, host_bound{1.25, 2, 0, 0}, waiting{1.5, 0, 0, 0};
  LaneSteps steps(5);
  Gap sum;
  ASSERT_EQ(divide_together(collectives, 0, 2, ranks, positions, steps, sum), wide_lanes);
  Gap expected;
  for (std::size_t lane = 0; lane < wide_lanes; ++lane) {
    EXPECT_EQ(steps.communicating[lane], exposed[lane]) << lane;
    EXPECT_EQ(steps.waiting[lane], waiting[lane]) << lane;
    expected.exposed += ranks[lane] * exposed[lane];
    expected.host_bound += ranks[lane] * host_bound[lane];
    expected.waiting += ranks[lane] * waiting[lane];
  }
  EXPECT_EQ(sum.exposed, expected.exposed);
  EXPECT_EQ(sum.host_bound, expected.host_bound);
  EXPECT_EQ(sum.waiting, expected.waiting);
  EXPECT_EQ(positions, (std::vector<double>{8, 8, 8, 9, 0}));
  EXPECT_EQ(steps.communicating[4] + steps.waiting[4], 0);
}

}  // namespace
}  // namespace lockstep::gap_test
