// Lane classes: classes of ranks that behave alike, because they are equal and have equal
// neighbours in their groups. One lane (engine/ranks.hpp) can stand for all ranks of a class. The
// classes are the coarsest partition of the ranks such that all ranks of a class see the same
// classes in their groups. Used by RankSpeeds (stragglers.hpp).
//
// Example: 4,096 ranks are in groups of 8. On a second axis, the ranks at the same place of these
// groups form a group. One rank is slow. The classes are: the slow rank; its 7 neighbours; the 511
// ranks at the same place in the other groups of 8; all other ranks.
#pragma once

#include <span>
#include <vector>

namespace lockstep {

// The groups of one communicator: for each rank, the number of its group. Groups are numbered from
// 0 without gaps.
using RankGroups = std::vector<int>;

// The class of each rank, numbered from 0. Ranks of one class have equal kinds, and on every axis
// their groups have equally many ranks of each class. Classes are numbered in the order of kinds.
// The refinement repeats until nothing changes: at most once for each class, in O(ranks log ranks)
// per axis and repetition.
std::vector<int> lane_classes(const std::vector<int>& kind_of_rank,
                              std::span<const RankGroups> axes);

// The lanes of every group, as RankGroup::add_communicator() takes them. Groups with the same lanes
// appear once.
// REQUIRES: lane_of_rank is a result of lane_classes() with this axis, or one lane per rank.
std::vector<std::vector<int>> lanes_of(const RankGroups& groups,
                                       const std::vector<int>& lane_of_rank);

}  // namespace lockstep
