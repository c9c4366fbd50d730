// Do ranks share a lane exactly if nothing distinguishes them?
#include "strategies/common/lane_classes.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace lockstep::lane_classes_test {
namespace {

using ::testing::ElementsAre;

// The groups of `ranks` ranks on two axes: consecutive groups of `size`, and the groups across
// these.
std::vector<RankGroups> mesh(int ranks, int size) {
  std::vector<RankGroups> axes(2);
  for (int rank = 0; rank < ranks; ++rank) {
    axes[0].push_back(rank / size);
    axes[1].push_back(rank % size);
  }
  return axes;
}

// One GPU of 4,096 is slow; the groups are 512 nodes of 8 GPUs. There are four kinds of ranks: the
// slow one, its 7 neighbors, the 511 ranks with the same place in their node, and the rest.
TEST(LaneClasses, OneSlowRankMakesFour) {
  std::vector<int> kinds(4096, 0);
  kinds[77] = 1;
  const std::vector<RankGroups> axes = mesh(4096, 8);
  const std::vector<int> lanes = lane_classes(kinds, axes);
  std::map<int, int> ranks;
  for (const int lane : lanes) ++ranks[lane];
  std::multiset<int> sizes;
  for (const auto& [lane, count] : ranks) sizes.insert(count);
  EXPECT_THAT(sizes, ElementsAre(1, 7, 511, 4096 - 1 - 7 - 511));
  EXPECT_EQ(lanes_of(axes[0], lanes).size(), 2u);  // the slow rank's node, and any other node
  EXPECT_EQ(lanes_of(axes[1], lanes).size(), 2u);
}

TEST(LaneClasses, EqualRanksAreOne) {
  const std::vector<RankGroups> axes = mesh(64, 8);
  EXPECT_EQ(lane_classes(std::vector<int>(64, 3), axes), std::vector<int>(64, 0));
  EXPECT_THAT(lanes_of(axes[0], std::vector<int>(64, 0)), ElementsAre(ElementsAre(0)));
}

TEST(LaneClasses, WithoutGroupsAreTheKinds) {
  EXPECT_THAT(lane_classes({5, 1, 5, 3}, {}), ElementsAre(2, 0, 2, 1));
}

// A lane's clock may represent all its ranks, because on every axis the groups of two ranks of a
// lane have equally many ranks of each lane.
RC_GTEST_PROP(LaneClasses, SeeTheSameLanesInTheirGroups, ()) {
  const int size = *rc::gen::element(1, 2, 4, 8), ranks = size * *rc::gen::inRange(1, 6);
  const auto count = static_cast<std::size_t>(ranks);
  const auto kinds = *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(0, 3));
  const std::vector<RankGroups> axes = mesh(ranks, size);
  const std::vector<int> lanes = lane_classes(kinds, axes);
  // by lane: the lanes in the groups of its first rank
  std::map<int, std::vector<std::vector<int>>> seen;
  for (std::size_t rank = 0; rank < count; ++rank) {
    std::vector<std::vector<int>> groups{{kinds[rank]}};
    for (const RankGroups& axis : axes) {
      std::vector<int>& members = groups.emplace_back();
      for (std::size_t other = 0; other < count; ++other) {
        if (axis[other] == axis[rank]) members.push_back(lanes[other]);
      }
      std::sort(members.begin(), members.end());
    }
    RC_ASSERT(seen.try_emplace(lanes[rank], groups).first->second == groups);
  }
  for (const RankGroups& axis : axes) {
    std::vector<int> covered;
    for (const std::vector<int>& group : lanes_of(axis, lanes)) {
      covered.insert(covered.end(), group.begin(), group.end());
    }
    std::sort(covered.begin(), covered.end());
    std::vector<int> all(seen.size());
    std::iota(all.begin(), all.end(), 0);
    RC_ASSERT(covered == all);
  }
}

}  // namespace
}  // namespace lockstep::lane_classes_test
