// Do transfers that share links get max-min fair rates?
#include "engine/fluid.hpp"

#include <gtest/gtest.h>

namespace lockstep::fluid_test {
namespace {

TEST(FluidNetwork, LoneFlowTakesBytesOverBandwidth) {
  FluidNetwork network;
  const int route = network.add_route({network.add_link(10)});
  network.start(route, 50, 1, 7, 2.0);
  EXPECT_DOUBLE_EQ(network.next_completion(), 7.0);
  EXPECT_EQ(network.complete_next(), 7);
  EXPECT_EQ(network.next_completion(), std::numeric_limits<double>::infinity());
}

TEST(FluidNetwork, LateFlowSharesWhatIsLeft) {
  FluidNetwork network;
  const int route = network.add_route({network.add_link(10)});
  network.start(route, 100, 1, 1, 0);  // alone until 5: 50 left, then 5/s each
  network.start(route, 20, 1, 2, 5);   // done at 9
  EXPECT_DOUBLE_EQ(network.next_completion(), 9);
  EXPECT_EQ(network.complete_next(), 2);
  EXPECT_DOUBLE_EQ(network.next_completion(), 12);  // 30 left at 10/s
  EXPECT_EQ(network.complete_next(), 1);
  EXPECT_DOUBLE_EQ(network.bytes_carried(0), 120);
  EXPECT_DOUBLE_EQ(network.busy_seconds(0, 20), 12);
}

TEST(FluidNetwork, UnusedShareGoesToOthers) {
  FluidNetwork network;
  const int narrow = network.add_link(2), wide = network.add_link(10);
  const int through_both = network.add_route({narrow, wide});
  const int wide_only = network.add_route({wide});
  network.start(through_both, 20, 1, 1, 0);  // 2/s
  network.start(wide_only, 80, 1, 2, 0);     // 8/s
  EXPECT_DOUBLE_EQ(network.next_completion(), 10);
  network.complete_next();
  EXPECT_NEAR(network.next_completion(), 10, 1e-12);
}

TEST(FluidNetwork, CapBindsLikeAPrivateLink) {
  FluidNetwork network;
  const int link = network.add_link(10);
  const int capped = network.add_route({link}, 1);
  const int open = network.add_route({link});
  network.start(capped, 10, 1, 1, 0);
  network.start(open, 45, 1, 2, 0);
  EXPECT_DOUBLE_EQ(network.next_completion(), 5);
  EXPECT_EQ(network.complete_next(), 2);
  EXPECT_DOUBLE_EQ(network.next_completion(), 10);
}

TEST(FluidNetwork, WeightCountsAsThatManyFlows) {
  FluidNetwork network;
  const int link = network.add_link(12);
  const int a = network.add_route({link}), b = network.add_route({link});
  network.start(a, 30, 3, 1, 0);  // three flows of 30 at 3/s each
  network.start(b, 30, 1, 2, 0);
  EXPECT_DOUBLE_EQ(network.next_completion(), 10);
  network.complete_next();
  network.complete_next();
  EXPECT_DOUBLE_EQ(network.bytes_carried(link), 120);
}

TEST(FluidNetwork, CappedFlowsOfAnyWeightLeaveTheRest) {
  FluidNetwork network;
  const int link = network.add_link(12);
  const int capped = network.add_route({link}, 1);
  const int open = network.add_route({link});
  network.start(capped, 100, 3, 1, 0);  // three flows at 1/s each
  network.start(open, 45, 1, 2, 0);     // 9/s
  EXPECT_DOUBLE_EQ(network.next_completion(), 5);
}

TEST(FluidNetwork, LinkCrossedTwiceCarriesTwice) {
  FluidNetwork network;
  const int link = network.add_link(10);
  const int route = network.add_route({link, link});
  network.start(route, 50, 1, 1, 0);
  EXPECT_DOUBLE_EQ(network.next_completion(), 10);
}

TEST(FluidNetwork, RouteWithoutLinksDeliversAtOnce) {
  FluidNetwork network;
  const int route = network.add_route({});
  network.start(route, 1e12, 1, 1, 3);
  EXPECT_DOUBLE_EQ(network.next_completion(), 3);
  EXPECT_EQ(network.complete_next(), 1);
}

}  // namespace
}  // namespace lockstep::fluid_test
