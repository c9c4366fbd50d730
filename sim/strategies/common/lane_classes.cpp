// Colour refinement over the groups of every axis (the 1-dimensional Weisfeiler-Leman algorithm).
// At first, all ranks of a kind are one class. A class is divided as long as two of its ranks see
// different classes among the members of their groups.
#include "strategies/common/lane_classes.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace lockstep {

namespace {

// Replaces each value by its position among the distinct values: 0 for the smallest.
template <class Value>
std::vector<int> ranked(const std::vector<Value>& values) {
  std::map<Value, int> numbers;
  for (const Value& value : values) numbers.try_emplace(value);
  int count = 0;
  for (auto& [value, number] : numbers) number = count++;
  std::vector<int> result;
  for (const Value& value : values) result.push_back(numbers.at(value));
  return result;
}

// How many numbers exist, if they are numbered from 0 without gaps.
int count_of(const std::vector<int>& numbers) {
  return numbers.empty() ? 0 : 1 + *std::max_element(numbers.begin(), numbers.end());
}

}  // namespace

std::vector<int> lane_classes(const std::vector<int>& kind_of_rank,
                              std::span<const RankGroups> axes) {
  std::vector<int> classes = ranked(kind_of_rank);
  const std::size_t ranks = classes.size();
  for (int before = 0; before < count_of(classes);) {
    before = count_of(classes);
    // By rank: its own class, and for each axis the number of the sorted list of classes in its
    // group.
    std::vector<std::vector<int>> seen(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) seen[rank].push_back(classes[rank]);
    for (const RankGroups& groups : axes) {
      std::vector<std::vector<int>> members(static_cast<std::size_t>(count_of(groups)));
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        members[static_cast<std::size_t>(groups[rank])].push_back(classes[rank]);
      }
      for (std::vector<int>& group : members) std::sort(group.begin(), group.end());
      const std::vector<int> alike = ranked(members);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        seen[rank].push_back(alike[static_cast<std::size_t>(groups[rank])]);
      }
    }
    classes = ranked(seen);
  }
  return classes;
}

// Groups with the same lanes become one set of lanes. A lane belongs to the set in which it first
// appears. If a lane of a group already belongs to a set, the group joins that set.
std::vector<std::vector<int>> lanes_of(const RankGroups& groups,
                                       const std::vector<int>& lane_of_rank) {
  std::vector<std::vector<int>> result;
  std::vector<int> set_of_group(static_cast<std::size_t>(count_of(groups)), -1);
  std::vector<int> set_of_lane(static_cast<std::size_t>(count_of(lane_of_rank)), -1);
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    int& of_group = set_of_group[static_cast<std::size_t>(groups[rank])];
    int& of_lane = set_of_lane[static_cast<std::size_t>(lane_of_rank[rank])];
    if (of_lane >= 0) {
      of_group = of_lane;
      continue;
    }
    if (of_group < 0) {
      of_group = static_cast<int>(result.size());
      result.emplace_back();
    }
    of_lane = of_group;
    result[static_cast<std::size_t>(of_group)].push_back(lane_of_rank[rank]);
  }
  return result;
}

}  // namespace lockstep
