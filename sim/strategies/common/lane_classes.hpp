// Equal ranks among equal neighbours are one lane: the coarsest partition of the ranks in which all
// ranks of a class see the same classes in their groups. Used to simulate one lane for many ranks.
#pragma once

#include <span>
#include <vector>

namespace lockstep {

// The number of each rank's group: the groups of one communicator. Numbers start at 0.
using RankGroups = std::vector<int>;

// The class of each rank. Ranks of one class have equal kinds, and on every axis their groups have
// equally many ranks of each class. Classes are in the order of kinds. Refines until nothing
// changes: at most as often as there are classes, O(ranks log ranks) per axis each time.
std::vector<int> lane_classes(const std::vector<int>& kind_of_rank,
                              std::span<const RankGroups> axes);

// The lanes of every group, once for equal groups, in the form that RankGroup::add_communicator
// takes. `lane_of_rank` must come from lane_classes() with this axis, or be one lane per rank.
std::vector<std::vector<int>> lanes_of(const RankGroups& groups,
                                       const std::vector<int>& lane_of_rank);

}  // namespace lockstep
