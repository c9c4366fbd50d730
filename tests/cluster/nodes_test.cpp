// Are jobs placed on nodes so that their simulated speed holds?
#include "cluster/nodes.hpp"

#include <gmock/gmock.h>

namespace lockstep::nodes_test {
namespace {

TEST(Nodes, AJobThatFitsIntoANodeIsNotSplit) {
  Nodes nodes(2, 4);
  nodes.take(nodes.place(3));
  nodes.take(nodes.place(3));
  EXPECT_EQ(nodes.free_gpus(), 2);
  EXPECT_TRUE(nodes.fits(1));
  EXPECT_FALSE(nodes.fits(2));
}

TEST(Nodes, TheFullestNodeThatHasRoomIsTaken) {
  Nodes nodes(3, 4);
  nodes.take(nodes.place(1));
  nodes.take({{1, 2}});
  const Allocation placed = nodes.place(2);
  ASSERT_EQ(placed.size(), 1U);
  EXPECT_EQ(placed[0].node, 1);
}

TEST(Nodes, LargeJobsTakeWholeNodesAndARemainder) {
  Nodes nodes(3, 4);
  EXPECT_TRUE(nodes.fits(9));
  const Allocation placed = nodes.place(9);
  ASSERT_EQ(placed.size(), 3U);
  EXPECT_EQ(placed[0].gpus, 4);
  EXPECT_EQ(placed[2].gpus, 1);
  nodes.take(placed);
  EXPECT_TRUE(nodes.fits(3));
  EXPECT_FALSE(nodes.fits(4));
  nodes.release(placed);
  EXPECT_EQ(nodes.free_gpus(), 12);
  EXPECT_TRUE(nodes.fits(12));
}

TEST(Nodes, GrowingMovesNothing) {
  Nodes nodes(3, 4);
  Allocation mine = nodes.place(2);
  nodes.take(mine);
  EXPECT_TRUE(nodes.grow(mine, 4));
  EXPECT_EQ(mine.size(), 1U);
  EXPECT_EQ(mine[0].gpus, 4);
  EXPECT_TRUE(nodes.grow(mine, 8));
  EXPECT_EQ(mine.size(), 2U);
  EXPECT_EQ(nodes.free_gpus(), 4);
  nodes.take({{2, 1}});
  EXPECT_FALSE(nodes.grow(mine, 12));
  EXPECT_EQ(mine.size(), 2U);
  EXPECT_EQ(nodes.free_gpus(), 3);
}

}  // namespace
}  // namespace lockstep::nodes_test
