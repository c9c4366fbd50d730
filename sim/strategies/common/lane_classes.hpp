// Lane classes: ranks that are equal and have equal neighbors in their groups. One lane can stand
// for all ranks of a class. The classes are the coarsest partition of the ranks in which all ranks
// of a class see the same classes in their groups. RankSpeeds uses it (stragglers.hpp).
//
// Example: 4,096 ranks in groups of 8; further groups join the ranks at the same place of all
// groups; one rank is slow. Classes: the slow rank; its 7 neighbors; the 511 ranks at the same
// place of the other groups; all other ranks.
#pragma once

#include <span>
#include <vector>

namespace lockstep {

// The groups of one communicator: by rank, the number of its group. Numbers count from 0 without
// gaps.
using RankGroups = std::vector<int>;

// The class of each rank, numbered from 0. Ranks of one class have equal kinds, and on every axis
// their groups have equally many ranks of each class. Classes are in the order of kinds. Refines
// until nothing changes: at most as often as there are classes, in O(ranks log ranks) per axis each
// time.
std::vector<int> lane_classes(const std::vector<int>& kind_of_rank,
                              std::span<const RankGroups> axes);

// The lanes of every group, once for equal groups, in the form that RankGroup::add_communicator
// takes.
// REQUIRES: lane_of_rank is a result of lane_classes() with this axis, or one lane per rank.
std::vector<std::vector<int>> lanes_of(const RankGroups& groups,
                                       const std::vector<int>& lane_of_rank);

}  // namespace lockstep
