// Is a gap before the end of a collective divided as each lane lived it?
#include "engine/gap.hpp"

#include <gtest/gtest.h>

#include "engine/range.hpp"

namespace lockstep::gap_test {
namespace {

// Two earlier collectives from 1 to 2 and from 2 to 4, the awaited one from 6 to 8; how each lane
// spends what is left until 8 is told beside it. The fifth lane is none of four.
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
  // Lane 0: stands for 1 to 4 and 6 to 8, is issued at 5, and waits for others from 5 to 6 and
  // before 1, but for the quarter second in which the first had not been issued. Lane 1: 3 to 4 and
  // 6 to 8, issued last. Lane 2: 7 to 8. Lane 3 is beyond.
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
